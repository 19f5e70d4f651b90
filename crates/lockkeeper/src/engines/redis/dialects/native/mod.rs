//! Our own way: a free key is taken without a script, a busy one has a line in the server, and a lock
//! that is released goes straight to the next in that line.

use std::sync::{Arc, LazyLock};

use self::{claim::NativeClaim, names::Prefix, wall_second::Wall};
use super::renewals::Renewals;
use crate::{
    engine::{
        Answers, Claim, Engine, Expiry, Fairness, Fencing, Inspector, Profile, Reach, Request,
        Wake, error::Result,
    },
    engines::redis::{
        server::{
            client::{Client, Needs},
            settings::{Arrangement, Settings},
        },
        wire::{bucket_set::BucketSet, script::Script},
    },
};

mod claim;
mod inspect;
mod names;
mod packing;
mod place;
mod wall_second;

/// Asks by script. What is said of the fence counter stands right before it is used.
fn ask(is_lifted: &str) -> Script {
    Script::new(&[
        include_str!("join.lua"),
        include_str!("names.lua"),
        include_str!("places.lua"),
        include_str!("ask.lua"),
        include_str!("hand_over.lua"),
        "  answer = 'busy ' .. LONGEST_PLACE\nend\n",
        is_lifted,
        include_str!("numbers.lua"),
        "if not place then return answer .. digits(last) end\n",
        include_str!("tell.lua"),
    ])
}
/// Where there is one server: the one who asks says whether the counter was lifted.
static ASK: LazyLock<Script> = LazyLock::new(|| ask(""));
/// Where there are several: every grant is numbered by the clock.
static ASK_BY_CLOCK: LazyLock<Script> = LazyLock::new(|| ask("is_lifted = false\n"));
/// The parts in this order, so that what is seldom needed costs nothing before. Whether the fence counter
/// was lifted before stands in the text: an argument for it would cost more.
fn release(is_lifted: &str) -> Script {
    Script::new(&[
        is_lifted,
        include_str!("release.lua"),
        include_str!("names.lua"),
        include_str!("release_marked.lua"),
        include_str!("hand_over.lua"),
        include_str!("numbers.lua"),
        include_str!("tell.lua"),
    ])
}
static RELEASE: LazyLock<Script> = LazyLock::new(|| release("local is_lifted = false\n"));
static RELEASE_LIFTED: LazyLock<Script> = LazyLock::new(|| release("local is_lifted = true\n"));
static RELEASE_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&["local length = 32\n", include_str!("../release_many.lua")]));
/// In a cluster, for a lock that probably has no line.
static RELEASE_ALONE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&[include_str!("release.lua"), include_str!("release_alone.lua")])
});
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("renew.lua")]));
static LIFT: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("lift.lua")]));
static COUNT: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("count.lua")]));

/// Every script as it is sent, by its name.
#[cfg(test)]
pub(super) fn scripts() -> Vec<(&'static str, &'static str)> {
    let scripts: [(&str, &LazyLock<Script>); 9] = [
        ("ASK", &ASK),
        ("ASK_BY_CLOCK", &ASK_BY_CLOCK),
        ("RELEASE", &RELEASE),
        ("RELEASE_LIFTED", &RELEASE_LIFTED),
        ("RELEASE_MANY", &RELEASE_MANY),
        ("RELEASE_ALONE", &RELEASE_ALONE),
        ("RENEW", &RENEW),
        ("LIFT", &LIFT),
        ("COUNT", &COUNT),
    ];
    let scripts = scripts.map(|(name, script)| (name, script.text.as_str()));
    scripts.into()
}

/// The native dialect.
#[derive(Debug)]
pub(crate) struct Native {
    shared: Arc<Shared>,
    profile: Profile,
}

/// What all claims share.
#[derive(Debug)]
struct Shared {
    client: Client,
    prefix: Prefix,
    renewals: Renewals,
    /// Keys that were busy lately: these are asked for by script at once.
    contended: BucketSet,
    wall: Wall,
    /// What stands before the label of a claim, for people to see: process and machine.
    whose: String,
}

impl Native {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let scripts: Vec<&'static Script> = match settings.arrangement {
            Arrangement::Single => {
                vec![&ASK, &RELEASE, &RELEASE_LIFTED, &RELEASE_MANY, &RENEW, &LIFT]
            }
            Arrangement::Sentinel { .. } => {
                vec![&ASK_BY_CLOCK, &RELEASE, &RELEASE_MANY, &RENEW, &COUNT]
            }
            Arrangement::Cluster => vec![&ASK_BY_CLOCK, &RELEASE, &RELEASE_ALONE, &RENEW, &COUNT],
        };
        let shared = Shared {
            client: Client::new(settings, Needs { scripts, listens: true })?,
            prefix: Prefix::new(settings.prefix.as_deref())?,
            renewals: Renewals::new(&RENEW),
            contended: BucketSet::default(),
            wall: Wall::default(),
            whose: format!("{}|{}|", std::process::id(), host_name()),
        };
        let promise = match settings.arrangement {
            Arrangement::Single => SINGLE,
            Arrangement::Sentinel { .. } | Arrangement::Cluster => REPLICATED,
        };
        let profile = Profile {
            reach: Reach::Network,
            expiry: Expiry::Lease { shortest: std::time::Duration::from_millis(100) },
            fairness: Fairness::FirstCome,
            fencing: Fencing::Grows,
            wake: Wake::Told,
            answers: Answers::Later,
            promise,
            broken_by: settings.arrangement.broken_by(),
            ..Profile::weakest("redis")
        };
        Ok(Self { shared: Arc::new(shared), profile })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }
}

const SINGLE: &str = "Among all who use the server, at most one is told that it holds the lock, as long as \
     the server keeps its data; a fence larger than all before also after it lost them.";
const REPLICATED: &str = "As one server, but a failover may lose a grant that the new primary has not \
     seen, and an old primary that lives on may grant until that is heard of: then two may hold the lock \
     until the first one's next renewal, and the fence is the cure.";

impl Engine for Native {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(NativeClaim::new(Arc::clone(&self.shared), request))
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().replace('|', "-")
}
