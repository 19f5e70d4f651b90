#![doc = include_str!("page.md")]

mod claim;
mod inspect;
mod wire;

use std::{sync::Arc, time::Duration};

use self::{
    claim::MemcachedClaim,
    wire::{Meta, Response},
};
use super::net::{one_server::OneServer, pipeline::Pipeline};
use crate::{
    engine::{
        Claim, Engine, Expiry, Inspector, Moment, Profile, Reach, Request,
        error::{Error, Result},
    },
    tools::url::Url,
};

pub(crate) const NAME: &str = "memcached";
const WHY_ONE: &str = "clients that see different lists would lock on different servers";
const PROMISE: &str = "Among all who use the server, in any language, at most one is told that it holds the \
     lock, as long as the server forgets nothing and does not stand still; an eviction, a restart or flush_all \
     frees a held lock at once. For efficiency only: no fence, no order among those who wait.";

/// One Memcached server.
#[derive(Debug)]
struct Memcached(Arc<Shared>);

type Link = Arc<Pipeline<Meta>>;

/// What all claims share.
#[derive(Debug)]
struct Shared {
    server: OneServer<Meta>,
    prefix: String,
    /// What other clients take for the format of the value.
    flags: u8,
}

/// Opens what a `memcached:` or `memcacheds:` URL names, and looks whether the server will do.
pub(crate) async fn open(mut url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    let server = OneServer::<Meta>::read(&mut url, NAME, 11211, WHY_ONE)?;
    let (prefix, flags) = match (url.take("dialect").as_deref(), url.take("prefix")) {
        (None, prefix) => (prefix.unwrap_or_default(), 0),
        (Some("tooz"), None) => ("__TOOZ_LOCK_".to_owned(), 1),
        _ => return Err(Error::bad_options("\"dialect\" may be tooz, which has its own prefix")),
    };
    url.no_more_parameters()?;
    for question in ["version\r\n", "stats settings\r\n"] {
        let said = match server.call(question.as_bytes(), now).await? {
            Response::Lines(said) => said,
            other => return Err(other.refusal()),
        };
        if said.contains("STAT cas_enabled no") {
            return Err(Response::Done(0).refusal());
        }
        if (0..6).any(|minor| said.starts_with(&format!("VERSION 1.{minor}."))) {
            return Err(Response::Error("ERROR".into()).refusal());
        }
    }
    Ok(Box::new(Memcached(Arc::new(Shared { server, prefix, flags }))))
}

impl Engine for Memcached {
    fn profile(&self) -> Profile {
        Profile {
            reach: Reach::Network,
            // The server counts in whole seconds.
            expiry: Expiry::Lease { shortest: Duration::from_secs(1) },
            promise: PROMISE,
            broken_by: "An eviction, a restart, flush_all, or a server that stood still; clients of another dialect.",
            ..Profile::weakest(NAME)
        }
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(MemcachedClaim::new(&self.0, &request))
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}
