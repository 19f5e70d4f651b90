//! Two processes at one place.

use std::time::Duration;

use super::{between_processes, rule, with_leases};
use crate::{
    conformance::{
        Neighbour, Rule,
        room::{Finding, Room, Stop, ensure},
    },
    engine::{Expiry, Profile, key::Key},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        between_processes,
        another_process_is_kept_out,
        "what one process holds, another is told busy for, both ways"
    ),
    rule!(
        between_processes,
        the_lock_goes_from_process_to_process,
        "a process that waits is served when another releases, with a larger fence"
    ),
    rule!(
        between_processes,
        when_the_holder_is_killed_the_next_one_gets_it,
        "a killed holder's lock is free at once, or when its lease is over"
    ),
    rule!(
        between_processes,
        a_killed_waiter_keeps_nobody_waiting,
        "a process killed while it waits costs those behind it at most a short lease"
    ),
    rule!(
        that_last_with_the_process,
        a_stopped_process_keeps_the_lock,
        "where time does not end a hold, a stopped process keeps it"
    ),
    rule!(
        with_leases_between_processes,
        a_stopped_process_loses_the_lock_and_knows,
        "where time ends a hold, a stopped process loses it, and knows when it goes on"
    ),
];

fn that_last_with_the_process(profile: &Profile) -> bool {
    between_processes(profile) && profile.expiry == Expiry::Session
}

fn with_leases_between_processes(profile: &Profile) -> bool {
    between_processes(profile) && with_leases(profile)
}

/// The lease a neighbour with this ttl may leave behind.
fn left_behind(room: &Room<'_>) -> Duration {
    room.short_ttl() * 2
}

/// Lets the neighbour take a free key for as short as can be; answers the fence.
async fn holds(room: &Room<'_>, neighbour: &mut dyn Neighbour, key: &Key) -> Finding<u64> {
    match neighbour.try_hold(key, room.short_ttl()).await? {
        Some(fence) => Ok(fence),
        None => Err(Stop::Broken("another process was told busy at a free key".into())),
    }
}

async fn another_process_is_kept_out(room: &Room<'_>) -> Finding {
    let mut neighbour = room.neighbour().await?;
    let key = room.key()?;
    let ttl = room.steady_ttl() * 10;
    let mut here = room.enter("one in this process", &key);
    here.gets_it().await?;
    let theirs = neighbour.try_hold(&key, ttl).await?;
    ensure!(theirs.is_none(), "another process was granted what is held here");
    here.releases().await?;
    let theirs = neighbour.try_hold(&key, ttl).await?;
    ensure!(theirs.is_some(), "another process was told busy at a free key");
    let mut here = room.enter("one in this process", &key);
    here.is_told_busy().await?;
    here.releases().await?;
    neighbour.release().await?;
    let mut here = room.enter("one in this process", &key);
    here.gets_it().await?;
    here.releases().await
}

async fn the_lock_goes_from_process_to_process(room: &Room<'_>) -> Finding {
    let mut neighbour = room.neighbour().await?;
    let key = room.key()?;
    let mut fence = 0;
    for _ in 0..3 {
        let mut here = room.enter("one in this process", &key);
        let ours = here.gets_it_after(Duration::ZERO).await?.fence;
        ensure!(ours == 0 || ours > fence, "fence {ours} here came after {fence} there");
        neighbour.wait_in_line(&key, room.steady_ttl() * 10).await?;
        here.releases().await?;
        fence = room.within(room.limit(), "the other process's turn", neighbour.served()).await??;
        ensure!(fence == 0 || fence > ours, "fence {fence} there came after {ours} here");
        let mut late = room.enter("one who asks meanwhile", &key);
        late.is_told_busy().await?;
        late.releases().await?;
        neighbour.release().await?;
    }
    Ok(())
}

async fn when_the_holder_is_killed_the_next_one_gets_it(room: &Room<'_>) -> Finding {
    for waits_before in [true, false] {
        let mut neighbour = room.neighbour().await?;
        let key = room.key()?;
        let theirs = holds(room, &mut *neighbour, &key).await?;
        let mut here = room.enter("the next one", &key);
        if waits_before {
            here.is_told_busy().await?;
        }
        neighbour.kill().await?;
        let ours = here.gets_it_after(left_behind(room)).await?.fence;
        ensure!(
            ours == 0 || ours > theirs,
            "fence {ours} here came after {theirs} of a killed process"
        );
        here.releases().await?;
    }
    Ok(())
}

async fn a_killed_waiter_keeps_nobody_waiting(room: &Room<'_>) -> Finding {
    let mut neighbour = room.neighbour().await?;
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    neighbour.wait_in_line(&key, room.short_ttl()).await?;
    let mut behind = room.enter("one behind a process that was killed", &key);
    behind.is_told_busy().await?;
    neighbour.kill().await?;
    holder.releases().await?;
    behind.gets_it_after(left_behind(room)).await?;
    behind.releases().await
}

async fn a_stopped_process_keeps_the_lock(room: &Room<'_>) -> Finding {
    let mut neighbour = room.neighbour().await?;
    let key = room.key()?;
    holds(room, &mut *neighbour, &key).await?;
    neighbour.stop().await?;
    let mut here = room.enter("one who waits for a stopped process", &key);
    for _ in 0..6 {
        here.is_told_busy().await?;
        room.pause(room.short_ttl()).await;
    }
    neighbour.go_on().await?;
    ensure!(neighbour.is_held().await?, "a process lost a lock that no time ends");
    neighbour.release().await?;
    here.gets_it_after(Duration::ZERO).await?;
    here.releases().await
}

async fn a_stopped_process_loses_the_lock_and_knows(room: &Room<'_>) -> Finding {
    let mut neighbour = room.neighbour().await?;
    let key = room.key()?;
    holds(room, &mut *neighbour, &key).await?;
    neighbour.stop().await?;
    let mut here = room.enter("one who waits for a stopped process", &key);
    here.gets_it_after(left_behind(room)).await?;
    neighbour.go_on().await?;
    ensure!(!neighbour.is_held().await?, "a stopped process still believes that it holds the lock");
    here.still_has_it().await?;
    here.releases().await
}
