//! The way of Java's Redisson (`RLock`): a hash at the key whose only field is the holder, and a channel
//! on which a release is told. Shares its keys with Redisson, and either wakes the other; those who wait for
//! its fair lock are woken by us.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use self::claim::RedissonClaim;
use super::foreign_claim::{self, Scripts, Shared};
use crate::{
    engine::{Claim, Engine, Profile, Request, Wake, error::Result},
    engines::redis::{
        server::{
            client::Client,
            settings::{Arrangement, Settings},
        },
        wire::script::Script,
    },
};

mod claim;
mod listening;

static ASK: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("ask.lua")]));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("renew.lua")]));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("release.lua")]));

/// Every script as it is sent, by its name.
#[cfg(test)]
pub(super) fn scripts() -> Vec<(&'static str, &'static str)> {
    let scripts: [(&str, &LazyLock<Script>); 3] =
        [("ASK", &ASK), ("RENEW", &RENEW), ("RELEASE", &RELEASE)];
    let scripts = scripts.map(|(name, script)| (name, script.text.as_str()));
    scripts.into()
}

/// The lease of Redisson, renewed every third of it.
const USUAL_TTL: Duration = Duration::from_secs(30);

/// The dialect of Redisson.
#[derive(Debug)]
pub(crate) struct Redisson {
    shared: Arc<Shared>,
    profile: Profile,
    /// How a release is told.
    publishes: Publishes,
}

/// To whom a release is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publishes {
    /// Those on the channel.
    Once,
    /// Those on the channel and those on the channel of its slot.
    Both,
}

impl Redisson {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let scripts = Scripts { ask: &ASK, renew: &RENEW, release: &RELEASE };
        let publishes = match settings.arrangement {
            Arrangement::Cluster => Publishes::Both,
            Arrangement::Single | Arrangement::Sentinel { .. } => Publishes::Once,
        };
        let profile = Profile {
            usual_ttl: Some(USUAL_TTL),
            ..foreign_claim::profile("redisson", Wake::Told, settings)
        };
        Ok(Self {
            shared: Arc::new(Shared::new(settings, scripts, unexpected)?),
            profile,
            publishes,
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }
}

impl Engine for Redisson {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(RedissonClaim::new(&self.shared, &request, self.publishes))
    }
}

fn unexpected(found: &str) -> String {
    match found {
        "string" => {
            "what is stored at the key is a text, as locks of all other dialects are: the wrong \
             dialect; use another key or prefix, or the dialect it was made with, which is \
             dialect=plain for most locks of other libraries"
                .into()
        }
        "hash" => {
            "what is stored at the key is a hash, but no lock of one holder as Redisson's RLock \
                   makes it; use another key or prefix"
                .into()
        }
        _ => {
            format!("what is stored at the key is a {found} and no lock; use another key or prefix")
        }
    }
}
