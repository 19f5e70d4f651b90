//! How searches are shared.

use super::*;
use crate::engines::redis::server::{handshake::Peer, settings::Login};

/// A route whose only guide cannot be reached.
fn leads_nowhere(is_cluster: bool) -> Route {
    let hello = || Hello {
        login: Login::default(),
        database: 0,
        tls: None,
        scripts: Vec::new(),
        listens: false,
        peer: Peer::Guide,
        place: None,
    };
    let kind = match is_cluster {
        true => Kind::Cluster,
        false => Kind::Sentinel { primary: "main".into(), server: Box::new(hello()) },
    };
    // Nobody can listen on this port.
    let guide = Host { name: "127.0.0.1".into(), port: 0 };
    Route::new(vec![guide], hello(), kind, Vec::new(), Arc::new(OwnRuntime::new("test")))
}

#[tokio::test]
async fn what_a_search_in_vain_found_out_is_shared_for_a_moment() {
    for is_cluster in [false, true] {
        let route = leads_nowhere(is_cluster);
        let start = Moment::from_nanos(1) + STALLED_AFTER;
        let a_nanosecond = Duration::from_nanos(1);
        for (after, n_searches) in [
            (Duration::ZERO, 1),
            (FRESH_FOR - a_nanosecond, 1),
            (FRESH_FOR, 2),
            (FRESH_FOR * 2 - a_nanosecond, 2),
        ] {
            let error = route.look_again(start + after).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
            assert_eq!(locked(&route.shared.state).n_searches, n_searches, "{after:?}");
        }
    }
}
