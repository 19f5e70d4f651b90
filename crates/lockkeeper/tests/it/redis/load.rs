//! Tasks that take a lock again and again, each with connections of its own, and what they saw.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use lockkeeper::Locks;
use tokio::task::JoinHandle;

use crate::tools::LONG;

const N_TASKS: usize = 4;

pub(crate) struct Load {
    seen: Arc<Seen>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    is_over: AtomicBool,
    /// In the order of the grants.
    fences: Mutex<Vec<u64>>,
}

impl Load {
    pub(crate) async fn start(url: &str, key: &'static str) -> Self {
        let seen = Arc::new(Seen::default());
        let mut tasks = Vec::new();
        for _ in 0..N_TASKS {
            let (locks, seen) = (Locks::connect(url).await.unwrap(), Arc::clone(&seen));
            tasks.push(tokio::spawn(async move {
                while !seen.is_over.load(Ordering::SeqCst) {
                    let guard = locks.lock(key).acquire_within(LONG).await.unwrap();
                    seen.fences.lock().unwrap().push(guard.fence());
                    // The server may be gone: then it is given back in the background.
                    let _ = guard.release().await;
                }
            }));
        }
        Self { seen, tasks }
    }

    /// Waits until it has gone on for a while from now.
    pub(crate) fn goes_on(&self) {
        let n_before = self.n_grants();
        lab::wait_until("the load goes on", || Ok(self.n_grants() > n_before + 50)).unwrap();
    }

    fn n_grants(&self) -> usize {
        self.seen.fences.lock().unwrap().len()
    }

    /// Ends it: nobody had trouble, and every fence was larger than the one before.
    pub(crate) async fn end_well(self) {
        self.seen.is_over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            tokio::time::timeout(LONG, task).await.expect("a task hangs").unwrap();
        }
        let fences = self.seen.fences.lock().unwrap();
        let backwards = fences.windows(2).find(|pair| pair[0] >= pair[1]);
        assert_eq!(backwards, None, "a fence that did not grow, of {}", fences.len());
    }
}
