//! Who holds a lock, and which locks there are.

use lockkeeper::{ErrorKind, Locks};

use super::site::{AGES, Site};

#[tokio::test]
async fn who_tells_the_holder_and_the_list_has_all_of_ours() {
    let site = Site::start();
    let builder = Locks::builder().url(&site.url()).label("a label\nof two lines");
    let locks = builder.connect().await.unwrap();
    let long = "\u{1f512}".repeat(128);
    let keys = ["a", "b c", "d\r\ne", "%41", &long];
    let mut guards = Vec::new();
    for key in keys {
        guards.push(locks.lock(key).ttl(AGES).acquire().await.unwrap());
    }
    // Items that are no locks: small, large, and one that looks nearly like a lock.
    site.server.command("set x 0 60 1\r\nx\r\nset y 0 60 10\r\nlockkeeper\r\n").unwrap();
    site.server.command(format!("set z 0 60 9000\r\n{}\r\n", "z".repeat(9000))).unwrap();
    let holder = locks.who("b c").await.unwrap().holder.unwrap();
    assert_eq!(holder.label.as_deref(), Some("a label\nof two lines"));
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(holder.host.is_some_and(|host| !host.is_empty()));
    let listed = locks.list().await.unwrap();
    let mut sorted = keys.map(str::to_owned);
    sorted.sort();
    let found: Vec<_> = listed.iter().map(|listed| listed.key.as_str().to_owned()).collect();
    assert_eq!(found, sorted);
    assert!(listed.iter().all(|listed| listed.held && listed.n_waiting == 0));
    // Others, with another prefix, see none of them.
    let elsewhere = Locks::connect(&format!("{}?prefix=p:", site.url())).await.unwrap();
    assert!(elsewhere.list().await.unwrap().is_empty());
    assert!(elsewhere.who("a").await.unwrap().holder.is_none());
    assert_eq!(locks.tidy(std::time::Duration::ZERO).await.unwrap(), 0);
    for guard in guards {
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
    assert!(locks.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn many_locks_are_listed() {
    const N_LOCKS: usize = 1500;
    let site = Site::start();
    let locks = site.locks().await;
    let mut guards = Vec::new();
    for n in 0..N_LOCKS {
        guards.push(locks.lock(&format!("key-{n:04}")).ttl(AGES).acquire().await.unwrap());
    }
    let listed = locks.list().await.unwrap();
    assert_eq!(listed.len(), N_LOCKS);
    assert!(listed.is_sorted_by(|a, b| a.key < b.key));
}

#[tokio::test]
async fn a_server_that_cannot_list_says_so() {
    let site = Site::start_with(&["-o", "no_lru_crawler"]);
    let locks = site.locks().await;
    let error = locks.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(locks.who("a").await.unwrap().holder.is_none());
}
