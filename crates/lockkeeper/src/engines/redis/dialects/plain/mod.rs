//! The plain way: a text with an expiry at the key, and nothing else. Most Redis locks of other
//! languages look like this, and share their keys with ours.

use std::sync::{Arc, LazyLock};

use self::claim::PlainClaim;
use super::foreign_claim::{self, Scripts, Shared};
use crate::{
    engine::{Claim, Engine, Profile, Request, Wake, error::Result},
    engines::redis::{
        server::{client::Client, settings::Settings},
        wire::script::Script,
    },
};

mod claim;

static ASK: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("../dialect_of.lua"), include_str!("ask.lua")]));
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

/// The plain dialect.
#[derive(Debug)]
pub(crate) struct Plain {
    shared: Arc<Shared>,
    profile: Profile,
}

impl Plain {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let scripts = Scripts { ask: &ASK, renew: &RENEW, release: &RELEASE };
        let shared = Arc::new(Shared::new(settings, scripts, unexpected)?);
        Ok(Self { shared, profile: foreign_claim::profile("redis-plain", Wake::Asked, settings) })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }
}

impl Engine for Plain {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(PlainClaim::new(&self.shared, &request))
    }
}

fn unexpected(found: &str) -> String {
    match found {
        "native" => {
            "what is stored at the key is a lock of the wrong dialect, the native one; use \
                     another key or prefix, or no dialect in the URL"
                .into()
        }
        "redlock" => {
            "what is stored at the key is a lock of redlock:, which a majority of servers must \
             grant: the wrong dialect; use another key or prefix, or the redlock: URL"
                .into()
        }
        "hash" => {
            "what is stored at the key is a hash, as locks of Redisson are: the wrong dialect; \
                   use another key or prefix, or dialect=redisson"
                .into()
        }
        _ => {
            format!("what is stored at the key is a {found} and no lock; use another key or prefix")
        }
    }
}
