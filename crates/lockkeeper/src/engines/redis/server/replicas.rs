//! Grants and renewals that count only when replicas have them: `wait-replicas` in the URL.
//!
//! `WAIT` speaks of what was written on its own connection, so it has to go where the attempt went,
//! and whatever is sent there meanwhile stands behind it. Renewals must not: where grants wait for
//! replicas, they have connections of their own.
//!
//! It makes a failover less likely to lose a grant, no more: a replica that has not seen it may be the
//! one that is promoted. A primary that was replaced, and whose replicas have left it, neither grants nor
//! renews any more.

use super::client::Client;
use crate::{
    engine::{
        Claim, Moment, OwnerId,
        error::{Error, ErrorKind, Result},
    },
    engines::redis::wire::{
        call::Call,
        connection::{Connection, Haste},
        digits::Digits,
        refusal::{no_error, unexpected},
        resp::Value,
    },
};

/// How long replicas have, in milliseconds: less than makes a connection count as stalled.
const PATIENCE_MS: u64 = 500;

impl Client {
    /// Whether grants and renewals count only when replicas have them.
    pub(crate) fn waits_for_replicas(&self) -> bool {
        self.n_replicas > 0
    }

    /// Makes sure that enough replicas have what was written at this connection. If they have not
    /// ([`ErrorKind::NoQuorum`]), the grant is to be given back.
    pub(crate) async fn see_copied(&self, at: Option<&Connection>, now: Moment) -> Result<()> {
        let wanted = u64::from(self.n_replicas);
        let (Some(at), true) = (at, self.waits_for_replicas()) else { return Ok(()) };
        let (n_replicas, patience) = (Digits::of(wanted), Digits::of(PATIENCE_MS));
        let call = Call::of(&[b"WAIT", n_replicas.as_bytes(), patience.as_bytes()]);
        let replies = no_error(at.send(&call, now, Haste::of_caller()).await?)?;
        let [Value::Int(n_copies)] = replies[..] else { return Err(unexpected(&replies)) };
        if u64::try_from(n_copies).is_ok_and(|n_copies| n_copies >= wanted) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NoQuorum,
            format!(
                "{n_copies} of the {wanted} replicas that wait-replicas asks for had the lock in \
                 time; look after the replicas, or ask for fewer"
            ),
        ))
    }
}

/// A claim that goes on as another owner once it has given a grant back: a release that is late would
/// undo the next grant to the same owner.
pub(crate) trait Renamed: Claim {
    /// Whether a release was sent in the name of its owner.
    fn is_spent(&mut self) -> &mut bool;

    /// Goes on as this owner. The server has nothing for the one before.
    fn rename(&mut self, owner: OwnerId);
}

/// Gives a grant back that too few replicas have; answers the error that said so.
pub(crate) async fn given_back(claim: &mut impl Renamed, error: Error, now: Moment) -> Error {
    if error.kind() == ErrorKind::NoQuorum {
        // Before the release, which may be given up at any time.
        *claim.is_spent() = true;
        // What cannot be given back now is so before the next attempt, or by whoever hears of the error.
        let _ = claim.release(now).await;
    }
    error
}

/// Sees to it that an attempt is not made by an owner that has sent a release.
pub(crate) async fn renamed_if_spent(claim: &mut impl Renamed, now: Moment) -> Result<()> {
    if *claim.is_spent() {
        claim.release(now).await?;
        let mut owner = [0; 16];
        getrandom::fill(&mut owner).map_err(|source| {
            Error::new(ErrorKind::Other, "the system gave no random numbers").because(source)
        })?;
        claim.rename(OwnerId(u128::from_be_bytes(owner)));
        *claim.is_spent() = false;
    }
    Ok(())
}
