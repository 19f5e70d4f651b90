//! What can go wrong between us and a Redis, one named test each, on every mode where it applies.

/// A fault as a test for each of the modes, which are functions of [`site::Site`].
macro_rules! fault {
    ($($mode:ident),+ : $name:ident) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $mode() {
                    use crate::redis::faults::site::{Site, ends};
                    ends(super::$name(Site::$mode())).await;
                }
            )+
        }
    };
}

mod replies;
mod site;
