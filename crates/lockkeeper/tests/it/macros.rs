//! `#[locked]`: what it refuses to compile, and what it does at run time.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::{
    future::pending,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use lockkeeper::{Error, ErrorKind, Guard, Locks, Owner, Result, blocking, locked};

/// Locks that a free function finds without an argument.
static LOCKS: LazyLock<Locks> = LazyLock::new(memory);

fn memory() -> Locks {
    blocking::block_on(Locks::connect("memory:")).unwrap()
}

/// A user's own error.
#[derive(Debug)]
enum Fault {
    Lock(ErrorKind),
    Own(&'static str),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Lock(error.kind())
    }
}

struct Order {
    id: u64,
}

struct Shop {
    locks: Locks,
    tenant: String,
    n_settled: usize,
}

impl Shop {
    fn new() -> Self {
        Self { locks: memory(), tenant: "acme".to_owned(), n_settled: 0 }
    }

    #[locked(key = "{self.tenant}/order:{order.id:04}", locks = self.locks, busy = wait("5s"))]
    async fn settle(&mut self, order: Order, guard: &Guard) -> Result<String> {
        let Order { id } = order;
        self.n_settled += usize::from(id > 0);
        Ok(guard.key().to_owned())
    }

    #[locked(key = "{note}", locks = &self.locks, busy = fail, ttl = "30s", label = "shop")]
    async fn fence(&self, note: &str, guard: &lockkeeper::Guard) -> Result<u64, Fault> {
        if note == "refused" {
            return Err(Fault::Own("refused"));
        }
        let fence = guard.fence();
        u8::try_from(note.len()).map_err(|_| Fault::Own("long"))?;
        Ok(fence)
    }

    #[locked(key = "{note}", locks = self.locks, busy = skip, barging)]
    async fn look(&self, note: &str) -> Result<Option<usize>> {
        Ok(Some(note.len()))
    }

    #[locked(key = "{note}", locks = self.locks, busy = wait("20ms"))]
    async fn wait_a_little(&self, note: &str) -> Result<usize> {
        Ok(note.len())
    }

    #[locked(key = "slow", locks = self.locks, busy = forever, maximum_hold = "50ms")]
    async fn outlive_the_lock(&self, stopped: Mark) -> Result<()> {
        let _stopped = &stopped;
        pending().await
    }

    #[locked(key = "slow", locks = self.locks, busy = forever, maximum_hold = "50ms")]
    fn outlive_it_plainly(&self, answer: Result<u32, Fault>, guard: &Guard) -> Result<u32, Fault> {
        while guard.is_held() {
            thread::sleep(Duration::from_millis(5));
        }
        answer
    }
}

/// Tells that it was dropped, and whether the key was still busy then.
struct Mark {
    locks: Locks,
    key: &'static str,
    dropped: Arc<AtomicBool>,
    was_busy: Arc<AtomicBool>,
}

impl Mark {
    fn new(locks: &Locks, key: &'static str) -> Self {
        Self { locks: locks.clone(), key, dropped: Arc::default(), was_busy: Arc::default() }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let again = blocking::block_on(self.locks.lock(self.key).try_acquire()).unwrap();
        self.was_busy.store(again.is_none(), Ordering::SeqCst);
        self.dropped.store(true, Ordering::SeqCst);
    }
}

fn is_free(locks: &Locks, key: &str) -> bool {
    blocking::block_on(locks.lock(key).acquire_within(Duration::from_secs(20))).is_ok()
}

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}

#[tokio::test]
async fn the_key_is_made_from_the_arguments() {
    let mut shop = Shop::new();
    let key = shop.settle(Order { id: 42 }).await.unwrap();
    assert_eq!(key, "acme/order:0042");
    assert_eq!(shop.n_settled, 1);
}

#[test]
fn no_runtime_is_needed() {
    let mut shop = Shop::new();
    let key = blocking::block_on(shop.settle(Order { id: 7 })).unwrap();
    assert_eq!(key, "acme/order:0007");
}

#[tokio::test]
async fn the_body_does_not_run_while_another_holds_the_lock() {
    let mut shop = Shop::new();
    let locks = shop.locks.clone();
    let guard = locks.lock("acme/order:0001").acquire().await.unwrap();
    let waiting = tokio::spawn(async move { (shop.settle(Order { id: 1 }).await, shop.n_settled) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let (key, n_settled) = waiting.await.unwrap();
    assert_eq!((key.unwrap().as_str(), n_settled), ("acme/order:0001", 1));
}

#[tokio::test]
async fn busy_fails_skips_or_times_out_as_chosen() {
    let shop = Shop::new();
    assert!(shop.fence("a").await.unwrap() > 0);
    assert_eq!(shop.look("abc").await.unwrap(), Some(3));

    let guard = shop.locks.lock("a").acquire().await.unwrap();
    let failed = shop.fence("a").await;
    assert!(matches!(failed, Err(Fault::Lock(ErrorKind::TimedOut))), "{failed:?}");
    assert_eq!(shop.look("a").await.unwrap(), None);
    assert_eq!(shop.wait_a_little("a").await.unwrap_err().kind(), ErrorKind::TimedOut);
    guard.release().await.unwrap();
    assert_eq!(shop.wait_a_little("a").await.unwrap(), 1);
}

#[tokio::test]
async fn a_key_that_is_too_long_or_empty_comes_back_as_an_error() {
    let shop = Shop::new();
    for note in ["", &"x".repeat(513)] {
        assert_eq!(shop.look(note).await.unwrap_err().kind(), ErrorKind::BadKey);
    }
}

#[tokio::test]
async fn the_lock_is_free_however_the_body_ends() {
    let shop = Arc::new(Shop::new());
    let refused = shop.fence("refused").await;
    assert!(matches!(refused, Err(Fault::Own("refused"))), "{refused:?}");
    assert!(is_free(&shop.locks, "refused"));

    let long = "x".repeat(300);
    let failed = shop.fence(&long).await;
    assert!(matches!(failed, Err(Fault::Own("long"))), "{failed:?}");
    assert!(is_free(&shop.locks, &long));

    #[locked(key = "{key}", locks = locks, busy = forever)]
    async fn panics(locks: &Locks, key: &str) -> Result<()> {
        panic!("{key} goes wrong");
    }
    let locks = shop.locks.clone();
    let panicked = tokio::spawn(async move { panics(&locks, "panic").await }).await;
    assert!(panicked.unwrap_err().is_panic());
    assert!(is_free(&shop.locks, "panic"));
}

#[tokio::test]
async fn the_body_is_stopped_when_the_lock_is_lost() {
    let shop = Shop::new();
    let mark = Mark::new(&memory(), "elsewhere");
    let dropped = Arc::clone(&mark.dropped);
    let stopped = tokio::time::timeout(Duration::from_secs(20), shop.outlive_the_lock(mark)).await;
    let error = stopped.expect("the body was not stopped").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::SeqCst), "the body is still alive");
    assert!(is_free(&shop.locks, "slow"));
}

#[test]
fn a_plain_body_that_outlives_its_lock_is_reported() {
    let shop = Shop::new();
    let lost = shop.outlive_it_plainly(Ok(1));
    assert!(matches!(lost, Err(Fault::Lock(ErrorKind::Lost))), "{lost:?}");
    let own = shop.outlive_it_plainly(Err(Fault::Own("mine")));
    assert!(matches!(own, Err(Fault::Own("mine"))), "the body's error counts: {own:?}");
    assert!(is_free(&shop.locks, "slow"));
}

#[tokio::test]
async fn arguments_are_dropped_before_the_lock_is_given_back() {
    #[locked(key = "last", locks = locks, busy = fail)]
    async fn ignores(locks: &Locks, _mark: Mark) -> Result<()> {
        Ok(())
    }
    let locks = memory();
    let mark = Mark::new(&locks, "last");
    let was_busy = Arc::clone(&mark.was_busy);
    ignores(&locks, mark).await.unwrap();
    assert!(was_busy.load(Ordering::SeqCst), "the lock was free while an argument was alive");
}

#[test]
fn plain_functions_take_both_kinds_of_locks_and_guards() {
    #[locked(key = "a:{n}", locks = LOCKS, busy = fail)]
    fn from_async(n: u32, guard: &blocking::Guard) -> Result<String> {
        Ok(guard.key().to_owned())
    }
    #[locked(key = "b:{n}", locks = locks, busy = skip)]
    fn from_blocking(locks: &blocking::Locks, n: u32, guard: &Guard) -> Result<Option<String>> {
        Ok(Some(guard.key().to_owned()))
    }
    assert_eq!(from_async(1).unwrap(), "a:1");
    let locks = blocking::Locks::from(memory());
    assert_eq!(from_blocking(&locks, 2).unwrap().as_deref(), Some("b:2"));
    let guard = locks.lock("b:2").acquire().unwrap();
    assert_eq!(from_blocking(&locks, 2).unwrap(), None);
    guard.release().unwrap();
}

#[tokio::test]
async fn an_owner_comes_in_again_under_its_own_lock() {
    #[locked(key = "ledger", locks = me, busy = fail)]
    async fn inner(me: &Owner, guard: &Guard) -> Result<u64> {
        Ok(guard.fence())
    }
    #[locked(key = "ledger", locks = me, busy = fail)]
    async fn outer(me: &Owner, guard: &Guard) -> Result<(u64, u64)> {
        Ok((guard.fence(), inner(me).await?))
    }
    let locks = memory();
    let (first, second) = outer(&locks.owner()).await.unwrap();
    assert_eq!(first, second);
    assert!(is_free(&locks, "ledger"));
}

#[test]
fn only_one_body_runs_at_a_time() {
    #[locked(key = "count", locks = LOCKS, busy = forever)]
    fn count(counter: &Mutex<u32>) -> Result<()> {
        let before = *counter.lock().unwrap();
        thread::yield_now();
        *counter.lock().unwrap() = before + 1;
        Ok(())
    }
    let counter = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| count(&counter).unwrap()));
        }
    });
    assert_eq!(*counter.lock().unwrap(), 400);
}
