//! A good engine with one thing done wrong.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    Error, Key, Result,
    engine::{
        Alert, Attempt, Claim, Engine, Inspector, Listed, Moment, OwnerId, Profile, Quick,
        Released, Request, Standing, Tells, Who,
    },
    engines::memory::Memory,
};

/// The memory engine at the end of a wire that can be cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wired {
    pub(crate) memory: Memory,
    pub(crate) cut: Arc<AtomicBool>,
    /// What to raise when the lock of a key is taken away.
    pub(crate) alerts: Arc<Mutex<Vec<(Key, Alert)>>>,
}

impl Wired {
    /// Takes a lock away, and says so.
    pub(crate) fn take_away(&self, key: &Key) {
        self.memory.take_away(key);
        let alerts = self.alerts.lock().unwrap();
        alerts.iter().filter(|(of, _)| of == key).for_each(|(_, alert)| alert.raise());
    }
}

impl Engine for Wired {
    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
        profile.tells = Tells::Unasked;
        profile
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let key = request.key.clone();
        Box::new(WiredClaim { claim: self.memory.claim(request), key, engine: self.clone() })
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.memory.inspector()
    }
}

#[derive(Debug)]
struct WiredClaim {
    claim: Box<dyn Claim>,
    key: Key,
    engine: Wired,
}

impl WiredClaim {
    fn reach(&mut self) -> Result<&mut Box<dyn Claim>> {
        match self.engine.cut.load(Ordering::SeqCst) {
            false => Ok(&mut self.claim),
            true => Err(Error::unreachable("no answer", "the wire is cut")),
        }
    }
}

#[async_trait]
impl Claim for WiredClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        self.reach()?.attempt(now).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.reach()?.renew(now).await
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.claim.set_ttl(ttl)
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.reach()?.release(now).await
    }

    async fn changed(&mut self) {
        self.claim.changed().await;
    }

    fn watched(&mut self, alert: Alert) {
        self.engine.alerts.lock().unwrap().push((self.key.clone(), alert));
    }
}

/// What a defect has to do with: one claim and what became of it.
#[derive(Debug)]
pub(super) struct Stake {
    pub(super) engine: Wired,
    pub(super) request: Request,
    pub(super) claim: Box<dyn Claim>,
    /// How many attempts there were, and how many of them were granted.
    pub(super) n_attempts: u32,
    pub(super) n_grants: u32,
    pub(super) n_releases: u32,
    /// For whatever else a defect wants to remember.
    pub(super) mark: bool,
}

impl Stake {
    pub(super) fn key(&self) -> &Key {
        &self.request.key
    }

    pub(super) fn was_granted(&self) -> bool {
        self.n_grants > 0
    }

    /// What a sound engine does.
    pub(super) async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        self.n_attempts += 1;
        let answer = self.claim.attempt(now).await?;
        self.n_grants += u32::from(matches!(answer, Attempt::Granted(_)));
        Ok(answer)
    }

    pub(super) async fn release(&mut self, now: Moment) -> Result<Released> {
        self.n_releases += 1;
        self.claim.release(now).await
    }

    /// Another claim of the same owner that asks for something else.
    pub(super) fn twin(&self, change: impl FnOnce(&mut Request)) -> Box<dyn Claim> {
        let mut request = self.request.clone();
        change(&mut request);
        self.engine.claim(request)
    }
}

/// One thing done wrong; everything else is done right.
#[async_trait]
pub(super) trait Defect: Send + Sync + fmt::Debug + 'static {
    fn request(&self, _request: &mut Request) {}

    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        stake.attempt(now).await
    }

    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        stake.claim.renew(now).await
    }

    fn set_ttl(&self, stake: &mut Stake, ttl: Duration) -> bool {
        stake.claim.set_ttl(ttl)
    }

    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        stake.release(now).await
    }

    async fn changed(&self, stake: &mut Stake) {
        stake.claim.changed().await;
    }

    fn watched(&self, stake: &mut Stake, alert: Alert) {
        stake.claim.watched(alert);
    }

    /// What an attempt the quick way comes to, if there is one.
    fn quick_attempt(&self, _stake: &mut Stake, _now: Moment) -> Option<Attempt> {
        None
    }

    /// What a release the quick way comes to, if there is one.
    fn quick_release(&self, _stake: &mut Stake, _now: Moment) -> Option<Released> {
        None
    }

    fn is_reusable(&self, _stake: &Stake) -> bool {
        false
    }

    fn dropped(&self, _stake: Stake) {}

    async fn who(&self, memory: &Memory, key: &Key, now: Moment) -> Result<Who> {
        memory.who(key, now).await
    }

    async fn list(&self, memory: &Memory, now: Moment) -> Result<Vec<Listed>> {
        memory.list(now).await
    }

    async fn tidy(&self, memory: &Memory, idle: Duration, now: Moment) -> Result<usize> {
        memory.tidy(idle, now).await
    }
}

/// The engine with the defect.
#[derive(Clone, Debug)]
pub(super) struct Planted {
    pub(super) engine: Wired,
    pub(super) defect: Arc<dyn Defect>,
}

impl Engine for Planted {
    fn profile(&self) -> Profile {
        self.engine.profile()
    }

    fn claim(&self, mut request: Request) -> Box<dyn Claim> {
        self.defect.request(&mut request);
        let stake = Stake {
            engine: self.engine.clone(),
            claim: self.engine.claim(request.clone()),
            request,
            n_attempts: 0,
            n_grants: 0,
            n_releases: 0,
            mark: false,
        };
        let defect = Arc::clone(&self.defect);
        Box::new(PlantedClaim { stake: Some(stake), defect, attempted: None, released: None })
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

#[async_trait]
impl Inspector for Planted {
    async fn who(&self, key: &Key, now: Moment) -> Result<Who> {
        self.defect.who(&self.engine.memory, key, now).await
    }

    async fn list(&self, now: Moment) -> Result<Vec<Listed>> {
        self.defect.list(&self.engine.memory, now).await
    }

    async fn tidy(&self, idle: Duration, now: Moment) -> Result<usize> {
        self.defect.tidy(&self.engine.memory, idle, now).await
    }
}

#[derive(Debug)]
struct PlantedClaim {
    // Taken out only when dropped.
    stake: Option<Stake>,
    defect: Arc<dyn Defect>,
    attempted: Option<Attempt>,
    released: Option<Released>,
}

impl PlantedClaim {
    fn parts(&mut self) -> (&mut Stake, &dyn Defect) {
        (self.stake.as_mut().unwrap(), &*self.defect)
    }
}

#[async_trait]
impl Claim for PlantedClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        let (stake, defect) = self.parts();
        defect.attempt(stake, now).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        let (stake, defect) = self.parts();
        defect.renew(stake, now).await
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        let (stake, defect) = self.parts();
        defect.set_ttl(stake, ttl)
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        let (stake, defect) = self.parts();
        defect.release(stake, now).await
    }

    async fn changed(&mut self) {
        let (stake, defect) = self.parts();
        defect.changed(stake).await;
    }

    fn watched(&mut self, alert: Alert) {
        let (stake, defect) = self.parts();
        defect.watched(stake, alert);
    }

    fn quick(&mut self) -> Option<&mut dyn Quick> {
        Some(self)
    }
}

impl Quick for PlantedClaim {
    fn send_attempt(&mut self, now: Moment) -> bool {
        let (stake, defect) = self.parts();
        self.attempted = defect.quick_attempt(stake, now);
        self.attempted.is_some()
    }

    fn poll_attempt(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Attempt>>> {
        Poll::Ready(Ok(self.attempted.take()))
    }

    fn send_release(&mut self, now: Moment) -> bool {
        let (stake, defect) = self.parts();
        self.released = defect.quick_release(stake, now);
        self.released.is_some()
    }

    fn poll_release(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Released>>> {
        Poll::Ready(Ok(self.released.take()))
    }

    fn is_reusable(&self) -> bool {
        self.stake.as_ref().is_some_and(|stake| self.defect.is_reusable(stake))
    }

    fn reuse(&mut self, _request: Request) -> Result<(), Request> {
        // It goes on with the request it has.
        Ok(())
    }
}

impl Drop for PlantedClaim {
    fn drop(&mut self) {
        if let Some(stake) = self.stake.take() {
            self.defect.dropped(stake);
        }
    }
}

/// The owner that all claims have in an engine that cannot tell them apart.
pub(super) const EVERYBODY: OwnerId = OwnerId(1);
