//! `wait-replicas` in the URL: grants and renewals count only once replicas have them.
//!
//! `WAIT` reports on the writes of its own connection. So it is sent on the connection of the attempt, and later calls
//! on that connection wait until it is over. Renewals must not wait: with `wait-replicas`, they have connections of
//! their own.
//!
//! This makes it less likely that a failover loses a grant, but does not exclude it: a replica without the grant may be
//! promoted. A primary that was replaced and has lost its replicas can neither grant nor renew.

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

/// How long replicas may take, in milliseconds: less than the time after which a connection counts as stalled.
const PATIENCE_MS: u64 = 500;

impl Client {
    /// Whether grants and renewals count only once replicas have them.
    pub(crate) fn waits_for_replicas(&self) -> bool {
        self.n_replicas > 0
    }

    /// Makes sure that enough replicas have the writes of this connection. If too few have them
    /// ([`ErrorKind::NoQuorum`]), the caller must give the grant back.
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

/// A claim that continues under another owner after it has given a grant back. Otherwise a late release would undo the
/// next grant, which would have the same owner.
pub(crate) trait Renamed: Claim {
    /// Whether a release was sent for the present owner.
    fn is_spent(&mut self) -> &mut bool;

    /// Continues as this owner. The server has nothing left of the previous owner.
    fn rename(&mut self, owner: OwnerId);
}

/// Gives back a grant that too few replicas have, and returns the error that reported it.
pub(crate) async fn given_back(claim: &mut impl Renamed, error: Error, now: Moment) -> Error {
    if error.kind() == ErrorKind::NoQuorum {
        // Set before the release, because this future may be dropped at any time.
        *claim.is_spent() = true;
        // If this release fails, the next attempt releases first, or the caller does after the error.
        let _ = claim.release(now).await;
    }
    error
}

/// Changes the owner before an attempt, if a release was sent for the present owner.
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
