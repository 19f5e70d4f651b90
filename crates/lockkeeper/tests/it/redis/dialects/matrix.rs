//! Every dialect at a key that another dialect holds: shared, refused, or not seen, as the page says.

use std::time::Duration;

use lab::redis::Server;
use lockkeeper::{ErrorKind, Guard, Locks, Result};
use tokio::task::JoinHandle;

use crate::tools::LONG;

const PAGE: &str = include_str!("../../../../src/engines/redis/page.md");
const DIALECTS: [&str; 4] = ["native", "plain", "redisson", "redlock"];
/// A ttl that no test waits for.
const AGES: Duration = Duration::from_secs(300);

/// Three servers, which are a majority for Redlock, and each a server of its own for the others.
struct Square {
    servers: Vec<Server>,
}

impl Square {
    fn open() -> Self {
        Self { servers: (0..3).map(|_| Server::start().unwrap()).collect() }
    }

    /// Locks of a dialect: at so many servers, one after the other, or at all of them as Redlock.
    async fn locks(&self, dialect: &str, n_servers: usize) -> Vec<Locks> {
        let addresses: Vec<_> = self.servers.iter().map(Server::address).collect();
        let urls = match dialect {
            "redlock" => vec![format!("redlock://{}", addresses.join(","))],
            _ => {
                let url = |address| format!("redis://{address}?dialect={dialect}");
                addresses[..n_servers].iter().map(url).collect()
            }
        };
        let mut all = Vec::new();
        for url in urls {
            let builder = Locks::builder().url(&url).answer_within(LONG);
            all.push(builder.connect().await.unwrap());
        }
        all
    }

    /// Waits until a key is as it should be at the first so many servers.
    async fn see(&self, n_servers: usize, what: &str, name: &str, is_so: impl Fn(&[u8]) -> bool) {
        let is_so_everywhere = || {
            self.servers[..n_servers].iter().all(|server| {
                let value = server.command(&["DUMP", name]).unwrap();
                is_so(value.bytes())
            })
        };
        let looking = async {
            while !is_so_everywhere() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(LONG, looking).await.is_ok(), "it is not so: {what}");
    }

    /// What the native dialect calls the lock of a key.
    async fn native_name(&self, key: &str) -> String {
        let locks = self.locks("native", 1).await;
        let guard = locks[0].lock(key).acquire_within(LONG).await.unwrap();
        let names = self.servers[0].command(&["KEYS", &format!("*k:{key}")]).unwrap();
        guard.release().await.unwrap();
        names.list()[0].text()
    }
}

/// A lock that is held, and those who wait for it.
struct Hold {
    _guards: Vec<Guard>,
    waiters: Vec<JoinHandle<Result<Guard>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.waiters.iter().for_each(JoinHandle::abort);
    }
}

async fn hold(locks: &[Locks], key: &str) -> Hold {
    let mut guards = Vec::new();
    for locks in locks {
        guards.push(locks.lock(key).ttl(AGES).acquire_within(LONG).await.unwrap());
    }
    Hold { _guards: guards, waiters: Vec::new() }
}

/// The three forms of a lock of the native dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    TakenWhenFree,
    WaitedFor,
    HandedOver,
}

async fn hold_native(square: &Square, key: &str, name: &str, form: Form) -> Hold {
    let n_servers = square.servers.len();
    let mut hold = hold(&square.locks("native", n_servers).await, key).await;
    if form == Form::TakenWhenFree {
        return hold;
    }
    for locks in square.locks("native", n_servers).await {
        let lock = locks.lock(key).ttl(AGES);
        hold.waiters.push(tokio::spawn(async move { lock.acquire_within(LONG).await }));
    }
    // A dump begins with the type and the length, of one or two bytes.
    square.see(n_servers, "the lock is marked", name, |dump| dump[..4].contains(&b'!')).await;
    if form == Form::HandedOver {
        hold._guards.clear();
        for waiter in std::mem::take(&mut hold.waiters) {
            hold._guards.push(waiter.await.unwrap().unwrap());
        }
    }
    hold
}

/// What one who asks once is told.
async fn outcome(asker: &Locks, key: &str) -> &'static str {
    match asker.lock(key).try_acquire().await {
        Ok(Some(_)) => "**not seen**",
        Ok(None) => "busy",
        Err(error) if error.kind() == ErrorKind::Refused => "refused",
        Err(error) => panic!("{error}"),
    }
}

/// What the page says of a key that one dialect holds and another asks for.
fn as_the_page_says(held_by: &str, asked_by: &str) -> &'static str {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| held by {held_by} |")));
    let row = row.unwrap_or_else(|| panic!("the page has no row for {held_by}"));
    let column = DIALECTS.iter().position(|dialect| *dialect == asked_by).unwrap();
    row.split('|').nth(column).unwrap().trim()
}

/// The same key in URLs that differ in nothing but the dialect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_in_two_dialects_is_as_the_page_says() {
    let square = Square::open();
    for held_by in DIALECTS {
        let key = format!("held-by-{held_by}");
        let _hold = hold(&square.locks(held_by, 1).await, &key).await;
        if held_by == "redlock" {
            // Two of the three are enough for it, and the third comes a little later.
            square.see(3, "all servers have it", &key, |dump| !dump.is_empty()).await;
        }
        for asked_by in DIALECTS {
            let told = outcome(&square.locks(asked_by, 1).await[0], &key).await;
            let said = as_the_page_says(held_by, asked_by);
            assert_eq!(told, said, "held by {held_by}, asked for by {asked_by}");
        }
    }
}

/// Under the same name at the servers, and at all of them, no dialect takes another's lock for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_tells_the_dialects_apart() {
    let square = Square::open();
    for held_by in ["plain", "redisson", "redlock"] {
        let key = format!("held-by-{held_by}");
        let name = square.native_name(&key).await;
        let _hold = hold(&square.locks(held_by, 3).await, &name).await;
        square.see(3, "all servers have it", &name, |dump| !dump.is_empty()).await;
        for asked_by in DIALECTS {
            let asked = if asked_by == "native" { &key } else { &name };
            let told = outcome(&square.locks(asked_by, 1).await[0], asked).await;
            // What other libraries make of Redlock is plain at each server.
            let is_shared = held_by == asked_by || (held_by, asked_by) == ("plain", "redlock");
            let due = if is_shared { "busy" } else { "refused" };
            assert_eq!(told, due, "held by {held_by}, asked for by {asked_by}");
        }
    }
}

/// A lock of the native dialect is known in each of its forms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_tells_a_native_lock_in_each_of_its_forms() {
    let square = Square::open();
    for form in [Form::TakenWhenFree, Form::WaitedFor, Form::HandedOver] {
        let key = format!("{form:?}");
        let name = square.native_name(&key).await;
        let _hold = hold_native(&square, &key, &name, form).await;
        for asked_by in DIALECTS {
            let asked = if asked_by == "native" { &key } else { &name };
            let told = outcome(&square.locks(asked_by, 1).await[0], asked).await;
            let due = if asked_by == "native" { "busy" } else { "refused" };
            assert_eq!(told, due, "{form:?}, asked for by {asked_by}");
        }
    }
}

/// What others write is theirs to choose: it is a lock, whatever it looks like.
#[tokio::test]
async fn what_other_libraries_write_is_busy() {
    let server = Server::start().unwrap();
    let digits = "0123456789abcdef0123456789abcdef";
    let url = format!("{}?dialect=plain", server.url());
    let locks = Locks::connect(&url).await.unwrap();
    for token in [
        digits,
        &format!("{digits}:54"),
        &format!("{digits}-54"),
        &format!("{digits}|54"),
        &format!("!{digits}"),
        "b983c153-7421-469a-addb-44fb92259a1b:54",
        "ADDED:2026-01-01T00:00:00.000Z@host:b983c153-7421-469a-addb-44fb92259a1b",
        "machine_54_0123456789abcdef0123456789abcdef",
        "c2l4dGVlbiByYW5kb20gYg==",
        "",
    ] {
        server.command(&["SET", "k", token, "PX", "60000"]).unwrap().not_an_error().unwrap();
        assert_eq!(outcome(&locks, "k").await, "busy", "{token:?}");
    }
}
