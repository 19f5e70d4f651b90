//! Lockkeeper as users have it: with fence, renewal and release.

use std::hint::black_box;

use lockkeeper::Locks;
use tokio::runtime::Runtime;

use super::{
    talk::Request,
    tally::{Contender, Tally, Tasks},
};
use crate::Result;

/// How a cycle ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Released,
    Dropped,
}

/// Whether the contenders share a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Company {
    /// One `Locks` for all, as in one program.
    Shared,
    /// A `Locks` each, as if each were a program of its own.
    Apart,
}

#[derive(Debug)]
pub(crate) struct Ours {
    locks: Locks,
    key: String,
    end: End,
}

impl Ours {
    pub(crate) fn tasks(
        runtime: Runtime,
        addresses: &[String],
        request: &Request,
        (end, company): (End, Company),
    ) -> Result<Tasks<Self>> {
        let url = match addresses {
            [address] => format!("redis://{address}"),
            several => format!("redlock://{}", several.join(",")),
        };
        let contenders = runtime.block_on(contenders(&url, request, end, company))?;
        Ok(Tasks { runtime, contenders })
    }
}

async fn contenders(url: &str, request: &Request, end: End, company: Company) -> Result<Vec<Ours>> {
    let shared = Locks::connect(url).await?;
    let mut contenders = Vec::new();
    for number in 0..request.n_contenders {
        let locks = match company {
            Company::Shared => shared.clone(),
            Company::Apart => Locks::connect(url).await?,
        };
        contenders.push(Ours { locks, key: request.key(number), end });
    }
    Ok(contenders)
}

impl Contender for Ours {
    async fn cycle(&mut self, tally: &mut Tally) -> Result<()> {
        let guard = self.locks.lock(&self.key).acquire().await?;
        black_box(guard.fence());
        tally.held();
        match self.end {
            End::Released => guard.release().await?,
            End::Dropped => drop(guard),
        }
        Ok(())
    }
}
