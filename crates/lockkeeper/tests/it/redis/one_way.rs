//! A network on which requests arrive, and replies do not. Nobody else is there, so nothing is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lab::redis::Server;
use lockkeeper::Locks;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::tools::LONG;

struct OneWay {
    server: Server,
    port: u16,
    n_connections: Arc<AtomicUsize>,
    /// The connections before this one bring no reply any more.
    n_mute: Arc<AtomicUsize>,
}

impl OneWay {
    async fn start() -> Self {
        let server = Server::start().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = Self { server, port, n_connections: Arc::default(), n_mute: Arc::default() };
        let (n_connections, n_mute) = (network.n_connections.clone(), network.n_mute.clone());
        let server = network.server.port();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = n_connections.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (mut requests, back) = client.into_split();
                let (replies, mut there) = server.into_split();
                tokio::spawn(async move { copy(&mut requests, &mut there).await });
                tokio::spawn(bring_back(replies, back, number, n_mute.clone()));
            }
        });
        network
    }

    fn mute(&self) {
        self.n_mute.store(self.n_connections.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

async fn bring_back(
    mut replies: OwnedReadHalf,
    mut back: OwnedWriteHalf,
    number: usize,
    n_mute: Arc<AtomicUsize>,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(n_read @ 1..) = replies.read(&mut bytes).await {
        let is_mute = number < n_mute.load(Ordering::SeqCst);
        if !is_mute && back.write_all(&bytes[..n_read]).await.is_err() {
            return;
        }
    }
}

/// The reply to an attempt is lost, and the lock is got over another connection.
async fn releases_what_it_holds(url: &str, networks: &[OneWay]) {
    let locks = Locks::connect(url).await.unwrap();
    locks.lock("one-way").acquire().await.unwrap().release().await.unwrap();
    networks.iter().for_each(OneWay::mute);
    let lock = locks.lock("one-way").ttl(LONG * 2);
    let guard = lock.acquire_within(LONG).await.unwrap();
    let released = guard.release().await;
    assert!(released.is_ok(), "{url}: {}", released.unwrap_err());
    // What was sent behind the attempt without a reply may still be on its way.
    tokio::time::sleep(Duration::from_millis(50)).await;
    locks.lock("one-way").acquire_within(LONG).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_without_a_reply_does_not_make_the_release_a_loss() {
    for dialect in ["native", "plain", "redisson"] {
        for _ in 0..3 {
            let network = OneWay::start().await;
            let url = format!("redis://127.0.0.1:{}?dialect={dialect}", network.port);
            releases_what_it_holds(&url, &[network]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_with_redlock() {
    for _ in 0..3 {
        let networks = [OneWay::start().await, OneWay::start().await, OneWay::start().await];
        let hosts = networks.each_ref().map(|network| format!("127.0.0.1:{}", network.port));
        releases_what_it_holds(&format!("redlock://{}", hosts.join(",")), &networks).await;
    }
}
