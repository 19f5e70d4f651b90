//! What a URL may say, and what connecting refuses.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use lab::memcached::Memcached;
use lockkeeper::{ErrorKind, Locks};

/// The error of a URL; nothing needs to listen there.
async fn refused(url: &str) -> lockkeeper::Error {
    Locks::connect(url).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_the_reason() {
    for (url, reason) in [
        ("memcached://a,b", "one server"),
        ("memcached://me@a", "no user"),
        ("memcached://me:canary@a", "no user"),
        ("memcached://:canary@a", "no password"),
        ("memcached://a/0", "no path"),
        ("memcached://", "host"),
        ("memcached:a", "host"),
        ("memcached://a:x", "host"),
        ("memcached://a?prefx=x", "prefx"),
        ("memcached://a?dialect=plain", "tooz"),
        ("memcached://a?dialect=tooz&prefix=x", "own prefix"),
        ("memcached://a?ca=/x", "memcacheds"),
        ("memcacheds://a?cert=/x", "go together"),
        ("memcacheds://a?ca=/does-not-exist", "cannot be used"),
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::BadOptions, "{url}: {error:?}");
        assert!(error.to_string().contains(reason), "{url}: {error}");
        assert!(!format!("{error:?}").contains("canary"), "{url}: {error:?}");
    }
}

/// A server that answers everything alike.
fn impostor(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut bytes = [0; 512];
            while let Ok(1..) = stream.read(&mut bytes) {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    format!("memcached://{address}")
}

#[tokio::test]
async fn servers_that_will_not_do_are_refused() {
    for (answer, kind, word) in [
        ("VERSION 1.5.22\r\n", ErrorKind::Refused, "1.6 or newer"),
        ("VERSION 1.4.0\r\n", ErrorKind::Refused, "1.6 or newer"),
        ("ERROR\r\n", ErrorKind::Refused, "1.6 or newer"),
        ("CLIENT_ERROR unauthenticated\r\n", ErrorKind::Refused, "logins"),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", ErrorKind::Unreachable, "protocol"),
        ("-ERR unknown command\r\n", ErrorKind::Unreachable, "protocol"),
    ] {
        let error = refused(&impostor(answer)).await;
        assert_eq!(error.kind(), kind, "{answer:?}: {error:?}");
        assert!(error.to_string().contains(word), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn a_server_without_cas_is_refused() {
    let server = Memcached::start_with(&["-C"]).unwrap();
    let error = refused(&server.url()).await;
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert!(error.to_string().contains("-C"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_out_of_reach() {
    let port = lab::free_port().unwrap();
    let error = refused(&format!("memcached://127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
}

#[tokio::test]
async fn a_short_ttl_is_refused_before_anything_is_sent() {
    let server = Memcached::start().unwrap();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let ttl = std::time::Duration::from_millis(999);
    let error = locks.lock("a").ttl(ttl).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadOptions, "{error:?}");
}

/// The server has a certificate of the lab's own authority.
#[tokio::test]
async fn through_tls() {
    let folder = lab::Folder::new().unwrap();
    let certificates = lab::Certificates::make(&folder).unwrap();
    let (server, url) = Memcached::start_secure(&certificates).unwrap();
    let trusting = format!("{url}?ca={}", certificates.authority.display());
    let locks = Locks::connect(&trusting).await.unwrap();
    let guard = locks.lock("a").acquire().await.unwrap();
    assert!(server.command("mg a v\r\n").unwrap().starts_with("VA "));
    assert_eq!(locks.list().await.unwrap().len(), 1);
    guard.release().await.unwrap();
    assert_eq!(server.command("mg a v\r\n").unwrap(), "EN\r\n");
    let distrusting = format!("{url}?ca={}", certificates.client.display());
    let error = refused(&distrusting).await;
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
}
