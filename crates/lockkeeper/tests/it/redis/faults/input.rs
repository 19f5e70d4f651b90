//! Bad input: a clear error of the right kind each, in time, and never with a secret in it.

use std::{net::TcpListener, time::Duration};

use lab::redis::{Secure, Server};
use lockkeeper::{Error, ErrorKind, Locks};

use super::site::Site;
use crate::tools::LONG;

/// A password that must be seen nowhere.
const CANARY: &str = "canary-6b1f";

/// Connecting must fail so, and say this.
async fn refused(url: &str, kind: ErrorKind, words: &[&str]) -> Error {
    let connected = tokio::time::timeout(LONG, Locks::connect(url)).await.expect("it hangs");
    let error = connected.map(|_| ()).expect_err("it was let in");
    says(&error, kind, words);
    error
}

fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    let mut shown = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        shown += &format!(" {error} {error:?}");
        source = error.source();
    }
    assert_eq!(error.kind(), kind, "{shown}");
    for word in words {
        assert!(error.to_string().contains(word), "no {word:?} in: {error}");
    }
    assert!(!shown.contains(CANARY), "{shown}");
}

#[tokio::test]
async fn a_wrong_password_user_or_none_is_refused() {
    let secure = Secure::start().unwrap();
    secure.add_user(&format!("worker on >{CANARY} ~* &* +@all")).unwrap();
    let host = secure.server.address();
    for login in ["worker:wrong@", "nobody:wrong@", "", "worker@", ":wrong@"] {
        let url = format!("redis://{login}{host}");
        refused(&url, ErrorKind::Refused, &["password", "URL"]).await;
    }
    let wrong = format!("redis://nobody:{CANARY}@{host}");
    refused(&wrong, ErrorKind::Refused, &["password", "URL"]).await;
    let right = Locks::connect(&format!("redis://worker:{CANARY}@{host}")).await.unwrap();
    assert!(!format!("{right:?} {:?}", right.lock("a")).contains(CANARY));
}

#[tokio::test]
async fn a_password_where_none_is_set_is_refused() {
    let server = Server::start().unwrap();
    let url = format!("redis://someone:{CANARY}@{}", server.address());
    refused(&url, ErrorKind::Refused, &["password"]).await;
}

#[tokio::test]
async fn a_url_that_cannot_be_meant_is_refused_before_anything_is_sent() {
    let secret = format!("redis://u:{CANARY}@127.0.0.1:1");
    for (rest, words) in [
        ("?colour=blue", &["colour"][..]),
        ("?dialect=plain&dialect=plain", &["dialect", "twice"]),
        ("?dialect=latin", &["native", "plain", "redisson"]),
        ("?prefix={a}", &["prefix"]),
        ("?evicting=yes", &["evicting", "allowed"]),
        ("?wait-replicas=many", &["wait-replicas", "number"]),
        ("?ca=/x", &["rediss"]),
        ("/x", &["database"]),
        ("/-1", &["database"]),
        ("/0/1", &["path"]),
        (",127.0.0.1:2", &["redis+sentinel"]),
    ] {
        refused(&format!("{secret}{rest}"), ErrorKind::BadOptions, words).await;
    }
    for (url, words) in [
        ("redis://", &["host"][..]),
        ("redis://h:port", &["host"]),
        ("redis+tape://h", &["tape"]),
        ("redis+sentinel://h", &["name"]),
        ("redis+cluster://h/1", &["database"]),
        ("rediss://h?cert=/x", &["cert", "key"]),
        ("rediss://h?ca=/no/such/file", &["/no/such/file"]),
    ] {
        refused(url, ErrorKind::BadOptions, words).await;
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let server = Server::start().unwrap();
    refused(&format!("{}/99", server.url()), ErrorKind::Refused, &["database"]).await;
}

#[tokio::test]
async fn a_refused_port_is_out_of_reach() {
    let port = lab::free_port().unwrap();
    let url = format!("redis://u:{CANARY}@127.0.0.1:{port}");
    refused(&url, ErrorKind::Unreachable, &["127.0.0.1", &port.to_string()]).await;
}

#[tokio::test]
async fn a_black_hole_is_out_of_reach_in_time() {
    // They take connections and never say anything.
    let silent = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let hosts = silent.each_ref().map(|silent| silent.local_addr().unwrap().to_string());
    for (engine, hosts) in [("redis", &hosts[0]), ("redlock", &hosts.join(","))] {
        let url = format!("{engine}://u:{CANARY}@{hosts}");
        let builder = Locks::builder().url(&url).connect_within(Duration::from_millis(300));
        assert!(!format!("{builder:?}").contains(CANARY));
        let error = tokio::time::timeout(LONG, builder.connect()).await.unwrap().unwrap_err();
        let all = format!("cannot open {engine}: no answer from {engine}://{hosts} within 300ms; ");
        says(&error, ErrorKind::Unreachable, &[&all]);
        assert_eq!(error.engine(), Some(engine));
    }
}

#[tokio::test]
async fn something_else_than_redis_is_not_understood() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://u:{CANARY}@{}", other.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::Write as _;
        let mut stream = other.accept().unwrap().0;
        // What it answers is sent whether or not anybody listens.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        std::thread::sleep(LONG);
    });
    refused(&url, ErrorKind::Other, &[]).await;
}

#[tokio::test]
async fn another_type_at_the_key_is_refused_and_stays() {
    let server = Server::start().unwrap();
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    let name = name_at(&server, &locks, "the-key").await;
    server.command(&["LPUSH", &name, "foreign"]).unwrap().not_an_error().unwrap();
    for _ in 0..2 {
        let lock = locks.lock("the-key");
        says(&lock.try_acquire().await.unwrap_err(), ErrorKind::Refused, &["another key"]);
        says(&lock.acquire_within(LONG).await.unwrap_err(), ErrorKind::Refused, &["another key"]);
    }
    let left = server.command(&["LRANGE", &name, "0", "-1"]).unwrap();
    assert_eq!(left.list(), ["foreign".into()]);
}

#[tokio::test]
async fn a_text_of_another_dialect_at_the_key_is_refused_and_stays() {
    let server = Server::start().unwrap();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let name = name_at(&server, &locks, "the-key").await;
    server.command(&["SET", &name, "f00f"]).unwrap().not_an_error().unwrap();
    let lock = locks.lock("the-key");
    says(&lock.acquire_within(LONG).await.unwrap_err(), ErrorKind::Refused, &["another key"]);
    assert_eq!(server.command(&["GET", &name]).unwrap(), "f00f".into());
}

/// The name that a key has at the server; it is free afterwards.
async fn name_at(server: &Server, locks: &Locks, key: &str) -> String {
    let guard = locks.lock(key).acquire().await.unwrap();
    let names = server.command(&["KEYS", &format!("*{key}*")]).unwrap();
    let name = names.list()[0].text();
    guard.release().await.unwrap();
    name
}

#[tokio::test]
async fn a_ttl_beyond_all_limits_is_refused_before_anything_is_sent() {
    let site = Site::native();
    let locks = site.locks().await;
    let before = site.proxies[0].counts();
    for ttl in [Duration::MAX, Duration::from_secs(1 << 53), Duration::ZERO] {
        let error = locks.lock("the-key").ttl(ttl).acquire().await.unwrap_err();
        says(&error, ErrorKind::BadOptions, &["ttl"]);
    }
    assert_eq!(site.proxies[0].counts(), before);
    // The longest there is goes through.
    let day = Duration::from_secs(24 * 3600);
    let guard = locks.lock("the-key").ttl(day).acquire().await.unwrap();
    let left = guard.remaining().unwrap();
    assert!(left > day / 2 && left <= day, "{left:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_may_evict_is_refused_unless_allowed() {
    let args = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let server = Server::start_with(&args).unwrap();
    let words = ["allkeys-lru", "noeviction", "evicting=allowed"];
    refused(&server.url(), ErrorKind::Refused, &words).await;
    let locks = Locks::connect(&format!("{}?evicting=allowed", server.url())).await.unwrap();
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    server.config_set("maxmemory-policy", "noeviction").unwrap();
    Locks::connect(&server.url()).await.unwrap();
}

#[tokio::test]
async fn a_replica_is_refused() {
    let primary = Server::start().unwrap();
    let port = primary.port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).unwrap();
    refused(&replica.url(), ErrorKind::Refused, &["replica", "redis+sentinel:"]).await;
}

/// A server that takes no more clients may take one later.
#[tokio::test]
async fn a_server_with_as_many_clients_as_it_takes_is_out_of_reach() {
    let server = Server::start().unwrap();
    let mut clients = vec![server.client().unwrap()];
    // Not less than it has, and it counts the one that asks.
    clients[0].command(&["CONFIG", "SET", "maxclients", "2"]).unwrap().not_an_error().unwrap();
    clients.push(server.client().unwrap());
    clients[1].command(&["PING"]).unwrap().not_an_error().unwrap();
    for dialect in ["native", "plain", "redisson"] {
        let url = format!("{}?dialect={dialect}", server.url());
        refused(&url, ErrorKind::Unreachable, &[]).await;
    }
    clients[0].command(&["CONFIG", "SET", "maxclients", "100"]).unwrap().not_an_error().unwrap();
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.lock("a").acquire_within(LONG).await.unwrap().release().await.unwrap();
}
