//! Losing the lock, as the user sees it.

use std::time::Duration;

use super::{always, rule, tells_unasked, whole::soon, with_leases};
use crate::{
    api::guard::Guard,
    conformance::{
        Rule,
        room::{Finding, Room, Stop, able, ensure},
    },
    engine::{LONGEST_TTL, error::ErrorKind},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        always,
        a_guard_is_told_of_its_loss,
        "when the lock is taken away, the guard says so, work under it stops, and release reports it"
    ),
    rule!(
        tells_unasked,
        a_loss_is_told_before_anybody_asks,
        "an engine that says so tells of a loss by itself, long before the next renewal"
    ),
    rule!(
        with_leases,
        a_holder_that_is_cut_off_is_told_in_time,
        "a holder that cannot reach the engine knows that it holds nothing by the end of its lease"
    ),
    rule!(
        with_leases,
        a_short_cut_is_survived,
        "a holder that reaches the engine again before the end of its lease keeps the lock"
    ),
    rule!(
        always,
        an_engine_out_of_reach_is_not_busy,
        "when the engine cannot be reached, asking is an error, never busy"
    ),
];

async fn a_guard_is_told_of_its_loss(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let ttl = room.steady_ttl();
    let guard = soon(room, "the holder", &here.lock(key.as_str()).ttl(ttl)).await?;
    let fence = guard.fence();
    room.take_away(&key).await?;
    is_told(room, &guard, ttl).await?;
    let next = soon(room, "the next", &there.lock(key.as_str())).await?;
    ensure!(fence == 0 || next.fence() > fence, "{} came after {fence}", next.fence());
    match guard.release().await {
        Err(error) if error.kind() == ErrorKind::Lost => {}
        answer => return Err(Stop::Broken(format!("releasing a lost lock answered {answer:?}"))),
    }
    ensure!(next.is_held(), "the next holder lost it too");
    let other = here.lock(key.as_str()).try_acquire().await?;
    ensure!(other.is_none(), "a late release freed the next holder's lock");
    next.release().await?;
    Ok(())
}

async fn a_loss_is_told_before_anybody_asks(room: &Room<'_>) -> Finding {
    let (key, here) = (room.key()?, room.locks().await?);
    // No renewal is due while the suite looks.
    let guard = soon(room, "the holder", &here.lock(key.as_str()).ttl(LONGEST_TTL)).await?;
    room.take_away(&key).await?;
    room.within(room.limit(), "the loss to be told unasked", guard.lost()).await?;
    ensure!(!guard.is_held(), "held and lost at once");
    Ok(())
}

/// The guard tells of its loss in every way it has.
async fn is_told(room: &Room<'_>, guard: &Guard, ttl: Duration) -> Finding {
    let work = guard.protect(std::future::pending::<()>());
    let stopped = room.within(ttl + room.limit(), "work to be stopped by the loss", work).await?;
    let kind = stopped.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Lost), "work was stopped with {kind:?}");
    room.within(room.limit(), "the guard to tell of its loss", guard.lost()).await?;
    ensure!(!guard.is_held(), "held and lost at once");
    ensure!(guard.remaining() == Some(Duration::ZERO), "time remains after the loss");
    Ok(())
}

async fn a_holder_that_is_cut_off_is_told_in_time(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let ttl = room.steady_ttl();
    let guard = soon(room, "the holder", &here.lock(key.as_str()).ttl(ttl)).await?;
    able(room.lab.cut_off().await)?;
    let told = is_told(room, &guard, ttl).await;
    room.lab.heal().await;
    told?;
    // What the server still has of the old hold ends with its lease, or is cleaned up.
    soon(room, "the next", &there.lock(key.as_str())).await?.release().await?;
    Ok(())
}

async fn a_short_cut_is_survived(room: &Room<'_>) -> Finding {
    // Long enough that what remains after the cut is long on a busy machine too.
    let ttl = room.steady_ttl() * 4;
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let guard = soon(room, "the holder", &here.lock(key.as_str()).ttl(ttl)).await?;
    able(room.lab.cut_off().await)?;
    // The renewal at a third of the lease falls into it.
    room.pause(ttl / 2).await;
    room.lab.heal().await;
    room.pause(ttl * 3 / 4).await;
    ensure!(guard.is_held(), "lost by a cut of half a lease");
    let other = there.lock(key.as_str()).try_acquire().await?;
    ensure!(other.is_none(), "another was granted it after a cut of half a lease");
    guard.release().await?;
    Ok(())
}

async fn an_engine_out_of_reach_is_not_busy(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let locks = room.locks().await?;
    // One call before, so that there is a connection to be cut.
    soon(room, "the first", &locks.lock(key.as_str())).await?.release().await?;
    able(room.lab.cut_off().await)?;
    let lock = locks.lock(key.as_str());
    let answer = room.within(room.limit(), "an answer while cut off", lock.try_acquire()).await;
    room.lab.heal().await;
    match answer? {
        Err(error) if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::NoQuorum) => {}
        answer => return Err(Stop::Broken(format!("while cut off, trying answered {answer:?}"))),
    }
    soon(room, "one after the cut", &lock).await?.release().await?;
    Ok(())
}
