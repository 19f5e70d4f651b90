//! Lockkeeper as users have it: with fence, renewal and release.

use std::{hint::black_box, io};

use lockkeeper::Locks;
use tokio::runtime::Runtime;

use super::{
    talk::Request,
    tally::{Contender, Tally, Tasks, Threads},
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
        let (url, keys) = (url(addresses), (0..request.n_contenders).map(|n| request.key(n)));
        let contenders = contenders(&url, keys, end, company);
        let contenders = runtime.block_on(contenders)?;
        Ok(Tasks { runtime, contenders })
    }

    /// A thread with a runtime each.
    pub(crate) fn threads(
        runtime: fn() -> io::Result<Runtime>,
        addresses: &[String],
        request: &Request,
    ) -> Result<Threads<Self>> {
        let url = url(addresses);
        let threads = (0..request.n_contenders).map(|number| {
            let runtime = runtime()?;
            let alone = contenders(&url, [request.key(number)], End::Released, Company::Shared);
            let contenders = runtime.block_on(alone)?;
            Ok(Tasks { runtime, contenders })
        });
        Ok(Threads(threads.collect::<Result<_>>()?))
    }
}

fn url(addresses: &[String]) -> String {
    match addresses {
        [address] => format!("redis://{address}"),
        several => format!("redlock://{}", several.join(",")),
    }
}

async fn contenders(
    url: &str,
    keys: impl IntoIterator<Item = String>,
    end: End,
    company: Company,
) -> Result<Vec<Ours>> {
    let shared = Locks::connect(url).await?;
    let mut contenders = Vec::new();
    for key in keys {
        let locks = match company {
            Company::Shared => shared.clone(),
            Company::Apart => Locks::connect(url).await?,
        };
        contenders.push(Ours { locks, key, end });
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
