//! An engine says, unasked, that a hold should be looked at. The clock stands still here, so no renewal is ever due
//! by time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    Locks, Loss, Result,
    clock::Clock,
    engine::{Alert, Attempt, Claim, Engine, Moment, Profile, Released, Request, Standing, Tells},
    engines::memory::Memory,
};

use crate::tools::{LONG, until};

/// One session of all claims, which can end.
#[derive(Clone, Debug, Default)]
struct Session {
    memory: Memory,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_dead: AtomicBool,
    alerts: Mutex<Vec<Alert>>,
    n_renewals: AtomicU32,
    /// A renewal waits for this; it has looked before.
    keeps_renewals: AtomicBool,
    /// Raises an alert while the answer to an attempt is on its way.
    alerts_at_once: AtomicBool,
}

impl Session {
    fn locks(&self) -> Locks {
        let builder = Locks::builder().clock(Clock::by_hand());
        builder.build(Box::new(self.clone())).unwrap()
    }

    fn raise(&self) {
        self.state.alerts.lock().unwrap().iter().for_each(Alert::raise);
    }

    fn end(&self) {
        self.state.is_dead.store(true, Ordering::SeqCst);
        self.raise();
    }

    fn n_renewals(&self) -> u32 {
        self.state.n_renewals.load(Ordering::SeqCst)
    }
}

impl Engine for Session {
    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
        profile.tells = Tells::Unasked;
        profile
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(SessionClaim { claim: self.memory.claim(request), session: self.clone() })
    }
}

#[derive(Debug)]
struct SessionClaim {
    claim: Box<dyn Claim>,
    session: Session,
}

#[async_trait]
impl Claim for SessionClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        let answer = self.claim.attempt(now).await;
        if self.session.state.alerts_at_once.load(Ordering::SeqCst) {
            self.session.raise();
        }
        answer
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        let state = &self.session.state;
        let is_dead = state.is_dead.load(Ordering::SeqCst);
        state.n_renewals.fetch_add(1, Ordering::SeqCst);
        while state.keeps_renewals.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        match is_dead {
            true => Ok(Standing::Lost("the session is over".into())),
            false => self.claim.renew(now).await,
        }
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.claim.release(now).await
    }

    async fn changed(&mut self) {
        self.claim.changed().await;
    }

    fn watched(&mut self, alert: Alert) {
        self.session.state.alerts.lock().unwrap().push(alert);
    }
}

async fn is_lost(guard: &lockkeeper::Guard) {
    let loss = tokio::time::timeout(LONG, guard.lost()).await.expect("nobody told of the loss");
    assert_eq!(loss, Loss::TakenAway("the session is over".into()));
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_session_that_ends_is_told_to_all_its_holders() {
    let session = Session::default();
    let locks = session.locks();
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(locks.lock(&format!("key {number}")).acquire().await.unwrap());
    }
    session.end();
    for guard in &guards {
        is_lost(guard).await;
    }
}

#[tokio::test]
async fn an_alert_for_a_hold_that_is_fine_only_has_it_looked_at() {
    let session = Session::default();
    let locks = session.locks();
    let guard = locks.lock("a").acquire().await.unwrap();
    for round in 1..=3 {
        session.raise();
        until("a look", || session.n_renewals() >= round);
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn an_alert_during_a_renewal_makes_another() {
    let session = Session::default();
    let locks = session.locks();
    let guard = locks.lock("a").acquire().await.unwrap();
    session.state.keeps_renewals.store(true, Ordering::SeqCst);
    session.raise();
    until("the renewal is under way", || session.n_renewals() == 1);
    // This renewal has looked already, and found the session alive.
    session.end();
    // The clock's thread must have seen the alert while the renewal has the claim.
    std::thread::sleep(Duration::from_millis(50));
    session.state.keeps_renewals.store(false, Ordering::SeqCst);
    is_lost(&guard).await;
}

#[tokio::test]
async fn an_alert_that_comes_before_the_grant_is_not_lost() {
    let session = Session::default();
    let locks = session.locks();
    session.state.alerts_at_once.store(true, Ordering::SeqCst);
    session.state.is_dead.store(true, Ordering::SeqCst);
    let guard = locks.lock("a").acquire().await.unwrap();
    is_lost(&guard).await;
}

#[tokio::test]
async fn an_alert_after_the_release_harms_nobody() {
    let session = Session::default();
    let locks = session.locks();
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    session.raise();
    // The next holder of the line is looked at, and is fine.
    let guard = locks.lock("a").acquire().await.unwrap();
    until("a look", || session.n_renewals() > 0);
    assert!(guard.is_held());
    guard.release().await.unwrap();
    drop(locks);
    session.raise();
}

#[tokio::test]
async fn an_engine_that_does_not_tell_is_given_no_alert() {
    #[derive(Debug)]
    struct Quiet(Session);

    impl Engine for Quiet {
        fn profile(&self) -> Profile {
            self.0.memory.profile()
        }

        fn claim(&self, request: Request) -> Box<dyn Claim> {
            self.0.claim(request)
        }
    }

    let session = Session::default();
    let locks = Locks::with_engine(Quiet(session.clone())).unwrap();
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert!(session.state.alerts.lock().unwrap().is_empty());
}
