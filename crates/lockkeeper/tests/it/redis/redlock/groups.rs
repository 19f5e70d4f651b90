//! Each of the servers may itself be a cluster, or a primary with its sentinels.

use lab::redis::{Cluster, Sentinels, Server};
use lockkeeper::Locks;

use super::{KEY, in_time};
use crate::tools::LONG;

#[tokio::test]
async fn a_vote_may_be_that_of_a_whole_group() {
    let (cluster, sentinels) = (Cluster::start().unwrap(), Sentinels::start().unwrap());
    let mut single = Server::start().unwrap();
    let urls = [cluster.url(), sentinels.url(), single.url()].join("%20").replace('+', "%2B");
    let url = format!("redlock:?servers={urls}");
    let (here, there) = (Locks::connect(&url).await.unwrap(), Locks::connect(&url).await.unwrap());
    let mut last = [0; 10];
    for round in 0..3 {
        // Keys in several slots, and one that would lead a careless reader of braces astray.
        for (number, last) in last.iter_mut().enumerate() {
            let key = format!("{KEY}:}}{number}{{}}");
            let guard = in_time(here.lock(&key).acquire_within(LONG)).await.unwrap();
            assert!(guard.fence() > *last, "{} after {last} in round {round}", guard.fence());
            *last = guard.fence();
            assert!(there.lock(&key).try_acquire().await.unwrap().is_none());
            guard.release().await.unwrap();
        }
        // From now on both groups are needed.
        single.kill().unwrap();
    }
}

#[tokio::test]
async fn a_group_that_is_named_twice_is_refused() {
    let sentinels = Sentinels::start().unwrap();
    let primary = sentinels.primary().unwrap().url();
    let urls = [sentinels.url(), primary, "redis://127.0.0.1:1".to_owned()];
    let url = format!("redlock:?servers={}", urls.join("%20").replace('+', "%2B"));
    let error = in_time(Locks::connect(&url)).await.unwrap_err();
    assert!(error.to_string().contains("1 and 2"), "{error}");
}
