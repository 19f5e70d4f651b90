//! Which servers are taken, and which are not.

use lab::{proxy::Proxy, redis::Secure};
use lockkeeper::{ErrorKind, Locks};

use super::{super::labs::Redlock, KEY, cut_off, in_time};

#[tokio::test]
async fn a_majority_is_enough_to_connect() {
    let lab = Redlock::start();
    lab.proxies[..2].iter().for_each(cut_off);
    let locks = in_time(Locks::connect(&lab.url())).await.unwrap();
    locks.lock(KEY).acquire().await.unwrap().release().await.unwrap();
    cut_off(&lab.proxies[2]);
    let error = in_time(Locks::connect(&lab.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert!(error.to_string().contains("3 of 5"), "{error}");
}

#[tokio::test]
async fn silent_servers_do_not_keep_a_majority_from_connecting() {
    let lab = Redlock::start();
    lab.proxies[3..].iter().for_each(Proxy::black_hole);
    let connecting = Locks::builder().url(&lab.url()).connect_within(super::LONG * 2).connect();
    let locks = in_time(connecting).await.unwrap();
    locks.lock(KEY).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn one_server_under_two_names_is_refused() {
    let lab = Redlock::start();
    let again = Proxy::to(lab.servers()[0].port()).unwrap();
    // With two out of reach it would be needed twice, so nobody can overlook it.
    lab.proxies[2..4].iter().for_each(cut_off);
    let url = lab.url().replace(&lab.proxies[4].address(), &again.address());
    let error = in_time(Locks::connect(&url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("1 and 5"), "{error}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let lab = Redlock::start();
    let port = lab.servers()[0].port().to_string();
    lab.proxies[2..4].iter().for_each(cut_off);
    lab.servers()[1].command(&["REPLICAOF", "127.0.0.1", &port]).unwrap().not_an_error().unwrap();
    let error = in_time(Locks::connect(&lab.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_repeated() {
    let lab = Redlock::start();
    let url = lab.url().replace("redlock://", "redlock://nobody:canary@");
    let error = in_time(Locks::connect(&url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn what_cannot_be_a_majority_is_refused_before_anybody_is_asked() {
    for hosts in ["a.invalid", "a.invalid,b.invalid", "a.invalid,b.invalid,a.invalid"] {
        let error = in_time(Locks::connect(&format!("redlock://{hosts}"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOptions, "{error}");
    }
}

#[tokio::test]
async fn servers_may_be_named_by_whole_urls() {
    let lab = Redlock::start();
    let urls: Vec<_> = lab.five.servers.iter().map(lab::redis::Server::url).collect();
    let by_urls = Locks::connect(&format!("redlock:?servers={}", urls.join("%20"))).await.unwrap();
    let by_hosts = lab.locks().await;
    let guard = by_urls.lock(KEY).acquire().await.unwrap();
    assert!(by_hosts.lock(KEY).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    by_hosts.lock(KEY).acquire().await.unwrap().release().await.unwrap();
}

/// The line that the engine's page recommends.
fn rights() -> Vec<&'static str> {
    let page = include_str!("../../../../src/engines/redis/dialects/redlock/page.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    line.split(' ').collect()
}

#[tokio::test]
async fn the_rights_on_the_page_are_enough_and_needed() {
    let lab = Redlock::start();
    for server in lab.servers() {
        server.command(&rights()).unwrap().not_an_error().unwrap();
    }
    let url = lab.url().replace("redlock://", "redlock://worker:secret@") + "?prefix=app:";
    let locks = Locks::connect(&url).await.unwrap();
    let guard = locks.lock(KEY).acquire().await.unwrap();
    // By script, and with a renewal and a busy key.
    let other = Locks::connect(&url).await.unwrap();
    assert!(other.lock(KEY).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = other.lock(KEY).ttl(std::time::Duration::from_secs(3)).acquire().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    for server in lab.servers() {
        server.command(&["ACL", "SETUSER", "worker", "-evalsha"]).unwrap().not_an_error().unwrap();
    }
    let error = match locks.lock(KEY).acquire_within(super::LONG).await {
        Ok(guard) => guard.release().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

#[tokio::test]
async fn tls_is_for_all_servers() {
    let servers = [(); 3].map(|()| Secure::start().unwrap());
    let mut authorities = Vec::new();
    for server in &servers {
        server.add_user(&rights()[2..].join(" ")).unwrap();
        authorities.extend(std::fs::read(server.ca_path()).unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authorities).unwrap();
    let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port())).join(",");
    let url = format!("redlocks://worker:secret@{hosts}?prefix=app:&ca={}", ca.display());
    let locks = Locks::connect(&url).await.unwrap();
    locks.lock(KEY).acquire().await.unwrap().release().await.unwrap();
    // Without the certificates nobody is trusted.
    let (url, _) = url.split_once('?').unwrap();
    Locks::connect(url).await.unwrap_err();
}
