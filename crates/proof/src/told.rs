//! Holders whose session ends: how soon they are told, by an engine that tells unasked.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lockkeeper::{
    LONGEST_TTL, Locks,
    engine::{Alert, Attempt, Claim, Engine, Moment, Profile, Released, Request, Standing, Tells},
    engines::memory::Memory,
};

use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

/// How many holds one session has, and how soon the last of their guards must be told.
const CASES: [(usize, Duration); 2] =
    [(1, Duration::from_millis(50)), (10_000, Duration::from_millis(200))];

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    for (n_holds, most) in CASES {
        let mut took = Vec::new();
        for _ in 0..settings.count(9, 5) {
            took.push(runtime.block_on(end_a_session(n_holds))?);
        }
        took.sort();
        let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
        println!(
            "  {n_holds} holds of one session: the last is told after {:.1} ms (median of {}), {:.1} ms at worst",
            median.as_secs_f64() * 1e3,
            took.len(),
            worst.as_secs_f64() * 1e3
        );
        ensure!(median <= most, "{n_holds} holds were told after {median:?}, not {most:?}");
    }
    Ok(())
}

/// Takes so many keys, ends the session, and answers how long it took until the last guard was told. No renewal is
/// due meanwhile.
async fn end_a_session(n_holds: usize) -> Outcome<Duration> {
    let session = Session::default();
    let locks = Locks::with_engine(session.clone())?;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..n_holds {
        let guard = locks.lock(&format!("key {number}")).ttl(LONGEST_TTL).acquire().await?;
        tasks.spawn(async move {
            guard.lost().await;
            (guard.is_held(), Instant::now())
        });
    }
    tokio::task::yield_now().await;
    let ended_at = Instant::now();
    session.end();
    let mut last = ended_at;
    let all = async {
        while let Some(told) = tasks.join_next().await {
            let (is_held, at) = told?;
            ensure!(!is_held, "a guard said held and lost at once");
            last = last.max(at);
        }
        Ok(())
    };
    tokio::time::timeout(HANG, all)
        .await
        .map_err(|_| Trouble::Violated(format!("not all of {n_holds} guards were told")))??;
    Ok(last - ended_at)
}

/// The memory engine, with one session for all claims.
#[derive(Clone, Debug, Default)]
struct Session {
    memory: Memory,
    is_over: Arc<AtomicBool>,
    alerts: Arc<Mutex<Vec<Alert>>>,
}

impl Session {
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let alerts = self.alerts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        alerts.iter().for_each(Alert::raise);
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
    async fn attempt(&mut self, now: Moment) -> lockkeeper::Result<Attempt> {
        self.claim.attempt(now).await
    }

    async fn renew(&mut self, now: Moment) -> lockkeeper::Result<Standing> {
        match self.session.is_over.load(Ordering::SeqCst) {
            true => Ok(Standing::Lost("the session is over".into())),
            false => self.claim.renew(now).await,
        }
    }

    async fn release(&mut self, now: Moment) -> lockkeeper::Result<Released> {
        self.claim.release(now).await
    }

    async fn changed(&mut self) {
        self.claim.changed().await;
    }

    fn watched(&mut self, alert: Alert) {
        let mut alerts =
            self.session.alerts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        alerts.push(alert);
    }
}
