//! The engine with everything above it: what a user sees.

use std::{future::pending, thread, time::Duration};

use futures_lite::future;

use super::{always, rule};
use crate::{
    Guard, Lock, Loss,
    conformance::{
        Rule,
        room::{Finding, Room, Stop, ensure},
    },
    engine::error::ErrorKind,
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        always,
        the_same_owner_comes_in_twice,
        "an owner that holds the lock gets it again with the same fence, and others only after its last guard"
    ),
    rule!(always, a_dropped_guard_frees_the_key, "a guard that is dropped is released soon"),
    rule!(
        always,
        a_dropped_acquire_leaves_nothing_behind,
        "futures dropped at any point keep nobody waiting and hold nothing"
    ),
    rule!(
        always,
        a_limited_wait_ends,
        "a wait with a limit ends as timed out, not earlier than asked"
    ),
    rule!(
        always,
        the_maximum_hold_ends_a_hold,
        "a hold with a maximum is lost when that is over, and free for others"
    ),
    rule!(
        always,
        a_blocked_thread_does_not_lose_it,
        "a user who blocks their thread for longer than the ttl keeps the lock"
    ),
];

/// Takes it now or soon: somebody else may be about to give it back.
pub(super) async fn soon(room: &Room<'_>, who: &str, lock: &Lock) -> Finding<Guard> {
    lock.acquire_within(room.limit()).await.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => Stop::Broken(format!("{who} waited in vain: {error}")),
        _ => error.into(),
    })
}

async fn the_same_owner_comes_in_twice(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let (me, you) = (here.owner(), here.owner());
    let outer = soon(room, "an owner", &me.lock(key.as_str())).await?;
    let inner = me.lock(key.as_str()).try_acquire().await?;
    let Some(inner) = inner else {
        return Err(Stop::Broken("an owner was told busy by itself".into()));
    };
    ensure!(inner.fence() == outer.fence(), "the same hold has two fences");
    outer.release().await?;
    ensure!(inner.is_held(), "the first guard's release ended the second's hold");
    for other in [you.lock(key.as_str()), there.lock(key.as_str())] {
        let other = other.try_acquire().await?;
        ensure!(other.is_none(), "another came in while an owner still had a guard");
    }
    inner.release().await?;
    soon(room, "the next", &there.lock(key.as_str())).await?.release().await?;
    Ok(())
}

async fn a_dropped_guard_frees_the_key(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    for locks in [&here, &there, &here] {
        drop(soon(room, "one after a dropped guard", &locks.lock(key.as_str())).await?);
    }
    Ok(())
}

async fn a_dropped_acquire_leaves_nothing_behind(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let impatient = there.lock(key.as_str());
    for n in 0..8 {
        // Free, then busy: dropped after one poll, and after ever longer.
        let holder = match n % 2 {
            0 => None,
            _ => Some(soon(room, "the holder", &here.lock(key.as_str())).await?),
        };
        drop(future::poll_once(impatient.acquire()).await);
        let pause = room.pause(Duration::from_millis(n));
        future::or(async { drop(impatient.acquire().await) }, pause).await;
        drop(future::poll_once(impatient.try_acquire()).await);
        drop(holder);
        soon(room, "one after dropped futures", &here.lock(key.as_str())).await?.release().await?;
    }
    Ok(())
}

async fn a_limited_wait_ends(room: &Room<'_>) -> Finding {
    const LIMIT: Duration = Duration::from_millis(100);
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let holder = soon(room, "the holder", &here.lock(key.as_str())).await?;
    let asked_at = room.clock.now();
    let other = there.lock(key.as_str());
    let waiting = other.acquire_within(LIMIT);
    match room.within(room.limit(), "the end of a limited wait", waiting).await? {
        Ok(_) => return Err(Stop::Broken("granted while another holds it".into())),
        Err(error) if error.kind() == ErrorKind::TimedOut => {}
        Err(error) => return Err(error.into()),
    }
    let waited = room.clock.now().since(asked_at);
    ensure!(waited >= LIMIT, "a wait of {LIMIT:?} ended after {waited:?}");
    holder.release().await?;
    soon(room, "one after a limited wait", &other).await?.release().await?;
    Ok(())
}

async fn the_maximum_hold_ends_a_hold(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let (here, there) = (room.locks().await?, room.locks().await?);
    let lock = here.lock(key.as_str()).maximum_hold(Duration::from_millis(50));
    let guard = soon(room, "the holder", &lock).await?;
    let loss = room.within(room.limit(), "the end of the maximum hold", guard.lost()).await?;
    ensure!(loss == Loss::MaximumHold, "the maximum hold ended with: {loss}");
    ensure!(!guard.is_held(), "held after the maximum hold");
    soon(room, "one after a maximum hold", &there.lock(key.as_str())).await?.release().await?;
    Ok(())
}

async fn a_blocked_thread_does_not_lose_it(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let ttl = room.steady_ttl();
    let (here, there) = (room.locks().await?, room.locks().await?);
    let guard = soon(room, "the holder", &here.lock(key.as_str()).ttl(ttl)).await?;
    thread::sleep(ttl.mul_f64(1.5));
    ensure!(guard.is_held(), "lost while the user's thread was blocked");
    let other = there.lock(key.as_str()).try_acquire().await?;
    ensure!(other.is_none(), "another was granted it while the user's thread was blocked");
    let lost = future::or(async { Some(guard.lost().await) }, async { None }).await;
    ensure!(lost.is_none(), "told of a loss that was none");
    let worked = guard.protect(async { 1 }).await?;
    let unfinished = future::poll_once(guard.protect(pending::<()>())).await;
    ensure!(worked == 1 && unfinished.is_none(), "work under a held lock was stopped");
    guard.release().await?;
    Ok(())
}
