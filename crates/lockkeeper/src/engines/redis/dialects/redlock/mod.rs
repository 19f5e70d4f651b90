#![doc = include_str!("page.md")]

use std::sync::{Arc, LazyLock};

use self::{
    claim::RedlockClaim,
    names::Prefix,
    server::Server,
    tally::{Quorum, Verdict},
};
use crate::{
    engine::{
        Answers, Claim, Engine, Expiry, Fairness, Fencing, Moment, Profile, Reach, Request, Wake,
        error::{Call, ErrorKind, Result},
    },
    engines::{
        net::together::join_until,
        redis::{server::client::Needs, wire::script::Script},
    },
    tools::url::Url,
};

mod claim;
mod names;
mod one_reply;
mod question;
mod server;
mod server_claim;
mod tally;
mod told;
mod urls;

const NAME: &str = "redlock";

static ASK: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("../dialect_of.lua"), include_str!("ask.lua")]));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("renew.lua")]));
static RAISE: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("raise.lua")]));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("release.lua")]));
static RELEASE_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&["local length = -1\n", include_str!("../release_many.lua")]));
const LIFT: &str = include_str!("../native/lift.lua");

/// Every script as it is sent, by its name.
#[cfg(test)]
pub(super) fn scripts() -> Vec<(&'static str, &'static str)> {
    let scripts: [(&str, &LazyLock<Script>); 5] = [
        ("ASK", &ASK),
        ("RENEW", &RENEW),
        ("RAISE", &RAISE),
        ("RELEASE", &RELEASE),
        ("RELEASE_MANY", &RELEASE_MANY),
    ];
    let scripts = scripts.map(|(name, script)| (name, script.text.as_str()));
    [&scripts[..], &[("LIFT", LIFT)]].concat()
}

/// A majority of servers that know nothing of each other.
#[derive(Debug)]
struct Redlock {
    shared: Arc<Shared>,
    profile: Profile,
}

/// What all claims share.
#[derive(Debug)]
struct Shared {
    servers: Vec<Server>,
    quorum: Quorum,
    prefix: Prefix,
}

/// Opens what a `redlock:` or `redlocks:` URL names.
pub(crate) async fn open(url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    let opened = Shared::open(url, now).await;
    let shared = opened.map_err(|error| error.at(NAME, None, Call::Connect))?;
    let profile = Profile {
        reach: Reach::Network,
        expiry: Expiry::Lease { shortest: std::time::Duration::from_millis(100) },
        fairness: Fairness::None,
        fencing: Fencing::Grows,
        wake: Wake::Asked,
        answers: Answers::Later,
        promise: PROMISE,
        broken_by: BROKEN_BY,
        ..Profile::weakest(NAME)
    };
    Ok(Box::new(Redlock { shared: Arc::new(shared), profile }))
}

const PROMISE: &str = "At most one is told that it holds the lock, unless a server forgets, or its clock jumps ahead, and it is \
     used again within a ttl; fewer than half of them may be out of reach. A fence larger than all before as long as a majority \
     remembers, or the clocks are right.";

const BROKEN_BY: &str = "A server that has forgotten, or whose clock jumped ahead, and is used again within a ttl; \
     clients of another dialect.";

fn needs() -> Needs {
    Needs { scripts: vec![&ASK, &RENEW, &RAISE, &RELEASE, &RELEASE_MANY], listens: false }
}

impl Engine for Redlock {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(RedlockClaim::new(Arc::clone(&self.shared), request))
    }
}

impl Shared {
    async fn open(url: Url, now: Moment) -> Result<Self> {
        let (settings, prefix) = urls::read(url)?;
        let servers: Result<Vec<_>> =
            settings.iter().map(|settings| Server::new(settings, needs())).collect();
        let shared = Self { servers: servers?, quorum: Quorum::of(settings.len()), prefix };
        shared.check(now).await?;
        Ok(shared)
    }

    /// Makes sure that a majority answers, and that none of those who do is one to refuse.
    async fn check(&self, now: Moment) -> Result<()> {
        let is_final = |answer: &Option<Result<bool>>| match answer {
            Some(Err(error)) => error.kind() != ErrorKind::Unreachable,
            _ => false,
        };
        let checks = self.servers.iter().map(|server| Box::pin(server.check(now)));
        let (verdict, answers) = join_until(checks, |answers| {
            let refused = answers.iter().any(is_final).then_some(Verdict::No);
            refused.or_else(|| self.quorum.agreed(answers))
        })
        .await;
        match verdict {
            Verdict::Yes => Ok(()),
            Verdict::NoQuorum => Err(self.quorum.error(self.names(), &answers)),
            Verdict::No => match answers.into_iter().find(is_final) {
                Some(Some(Err(error))) => Err(error),
                _ => Ok(()),
            },
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.name.as_str())
    }
}
