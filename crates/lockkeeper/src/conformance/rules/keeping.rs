//! Keeping the lock, and losing it.

use std::time::Duration;

use super::{always, rule, with_leases};
use crate::{
    conformance::{
        Rule,
        room::{Finding, Room, Stop, ensure},
    },
    engine::{Lease, Patience, Request, Standing, key::Key},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        always,
        renewing_never_takes_anew,
        "renewing a claim that does not hold the key answers lost, and takes nothing"
    ),
    rule!(
        always,
        a_released_lock_cannot_be_renewed,
        "renewing after a release answers lost, and does not bring the lock back"
    ),
    rule!(
        with_leases,
        an_expired_lease_is_free_for_others,
        "a lease that nobody renews ends by itself"
    ),
    rule!(
        with_leases,
        a_lease_lasts_as_long_as_it_says,
        "nobody else is granted the key before the lease is over"
    ),
    rule!(
        with_leases,
        an_expired_holder_cannot_come_back,
        "once another holds the key, the old holder's renewal answers lost and changes nothing"
    ),
    rule!(
        always,
        renewal_keeps_it_beyond_the_ttl,
        "a lock that is renewed in time stays held for longer than its ttl"
    ),
    rule!(
        with_leases,
        another_ttl_counts_from_the_next_renewal,
        "a claim that takes another ttl while it holds is renewed for that ttl"
    ),
    rule!(
        always,
        a_lost_lock_is_reported_by_renew,
        "when the lock was taken away, renewing says so"
    ),
    rule!(
        always,
        a_lost_lock_is_not_taken_back_from_the_next,
        "when the lock was taken away and another has it, the old holder neither renews nor releases it"
    ),
    rule!(
        always,
        a_waiter_gets_what_was_taken_away,
        "when the lock is taken away, who was waiting for it gets it, whatever the old holder does"
    ),
    rule!(
        always,
        a_claim_that_is_dropped_frees_itself_within_its_lease,
        "a claim that is dropped without a release is free for others soon, or when its lease is over"
    ),
];

async fn renewing_never_takes_anew(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut stranger = room.enter("one who never asked", &key);
    stranger.does_not_have_it().await?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    let mut waiter = room.enter("a waiter", &key);
    waiter.is_told_busy().await?;
    waiter.does_not_have_it().await?;
    holder.releases().await?;
    // Its turn has come, but it has not asked.
    waiter.does_not_have_it().await?;
    waiter.releases().await?;
    let mut next = room.enter("the next", &key);
    next.gets_it().await?;
    next.releases().await
}

async fn a_released_lock_cannot_be_renewed(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut one = room.enter("one who released", &key);
    one.gets_it().await?;
    one.releases().await?;
    one.does_not_have_it().await?;
    let mut next = room.enter("the next", &key);
    next.gets_it().await?;
    one.does_not_have_it().await?;
    next.still_has_it().await?;
    next.releases().await
}

async fn an_expired_lease_is_free_for_others(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let ttl = room.short_ttl();
    let mut silent = room.enter_with("one who never renews", &key, |request| request.ttl = ttl);
    let lease = silent.gets_it().await?.lasts();
    let mut next = room.enter("the next", &key);
    next.gets_it_after(lease).await?;
    next.releases().await
}

async fn a_lease_lasts_as_long_as_it_says(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let ttl = room.steady_ttl();
    let mut silent = room.enter_with("one who never renews", &key, |request| request.ttl = ttl);
    let won = silent.gets_it().await?;
    let mut next = room.enter("the next", &key);
    let after = next.gets_it_after(won.lasts()).await?.answered_at.since(won.sent_at);
    // Servers round, and clocks differ in rate.
    ensure!(
        after >= won.lasts().mul_f64(0.95),
        "a lease of {:?} was over after {after:?}",
        won.lasts()
    );
    next.releases().await
}

async fn an_expired_holder_cannot_come_back(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let ttl = room.short_ttl();
    let mut late = room.enter_with("one whose lease ran out", &key, |request| request.ttl = ttl);
    let before = late.gets_it().await?;
    let mut next = room.enter("the next", &key);
    let after = next.gets_it_after(before.lasts()).await?;
    late.does_not_have_it().await?;
    late.is_released().await?;
    next.still_has_it().await?;
    room.ensure_fence_grew(&before, &after)?;
    next.releases().await
}

async fn renewal_keeps_it_beyond_the_ttl(room: &Room<'_>) -> Finding {
    const ROUNDS: usize = 5;
    for _ in 0..ROUNDS {
        if renewed_in_time(room, &room.key()?).await? {
            return Ok(());
        }
    }
    Err(Stop::Skipped("the machine is too busy to renew in time".into()))
}

async fn another_ttl_counts_from_the_next_renewal(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut one = room.enter("one who takes another ttl", &key);
    one.gets_it().await?;
    for ttl in [Duration::from_secs(70), room.short_ttl()] {
        if !one.claim.set_ttl(ttl) {
            return one.releases().await;
        }
        match one.renews().await? {
            Standing::Held(Lease::For(lease)) if lease > ttl || lease < ttl / 2 => {
                let message = format!("a ttl of {ttl:?} was taken, and the lease is {lease:?}");
                return Err(Stop::Broken(message));
            }
            Standing::Held(_) => {}
            Standing::Lost(why) => return Err(Stop::Broken(format!("it was lost: {why}"))),
        }
    }
    // The engine has to have heard of it too.
    let mut next = room.enter("the next after another ttl", &key);
    next.gets_it_after(room.short_ttl()).await?;
    next.releases().await
}

/// Whether renewal was in time, by our own clock; if it was, the lock must have stayed.
async fn renewed_in_time(room: &Room<'_>, key: &Key) -> Finding<bool> {
    let ttl = room.steady_ttl();
    let mut holder = room.enter_with("one who renews", key, |request| request.ttl = ttl);
    let won = holder.gets_it().await?;
    let tries = |request: &mut Request| request.patience = Patience::Tries;
    let mut other = room.enter_with("one who tries meanwhile", key, tries);
    let lasts = won.lasts().max(ttl);
    let mut renewed_at = won.sent_at;
    while renewed_at.since(won.sent_at) < lasts.mul_f64(1.5) {
        room.pause(lasts / 6).await;
        let sent_at = room.clock.now();
        let standing = holder.renews().await?;
        let answer = other.asks().await?;
        if room.clock.now().since(renewed_at) >= lasts.mul_f64(0.9) {
            return Ok(false);
        }
        if let Standing::Lost(why) = standing {
            return Err(Stop::Broken(format!("lost though renewed in time: {why}")));
        }
        ensure!(answer.is_err(), "another was granted it though it was renewed in time");
        renewed_at = sent_at;
    }
    holder.releases().await?;
    Ok(true)
}

async fn a_lost_lock_is_reported_by_renew(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    room.take_away(&key).await?;
    let noticing = async {
        while let Standing::Held(_) = holder.renews().await? {
            room.pause(Duration::from_millis(10)).await;
        }
        Finding::Ok(())
    };
    room.within(room.limit(), "a renewal to say that the lock was taken away", noticing).await??;
    let mut next = room.enter("the next", &key);
    next.gets_it_after(Duration::ZERO).await?;
    next.releases().await
}

async fn a_lost_lock_is_not_taken_back_from_the_next(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut robbed = room.enter("one who was robbed", &key);
    let before = robbed.gets_it().await?;
    room.take_away(&key).await?;
    let mut next = room.enter("the next", &key);
    let after = next.gets_it_after(Duration::ZERO).await?;
    robbed.does_not_have_it().await?;
    next.still_has_it().await?;
    robbed.is_released().await?;
    next.still_has_it().await?;
    let mut third = room.enter("a third", &key);
    third.is_told_busy().await?;
    room.ensure_fence_grew(&before, &after)?;
    third.releases().await?;
    next.releases().await
}

async fn a_waiter_gets_what_was_taken_away(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut robbed = room.enter("one who was robbed", &key);
    let mut waiter = room.enter("the waiter", &key);
    let before = robbed.gets_it().await?;
    waiter.is_told_busy().await?;
    room.take_away(&key).await?;
    let after = waiter.gets_it_after(Duration::ZERO).await?;
    room.ensure_fence_grew(&before, &after)?;
    robbed.does_not_have_it().await?;
    robbed.is_released().await?;
    waiter.still_has_it().await?;
    waiter.releases().await
}

async fn a_claim_that_is_dropped_frees_itself_within_its_lease(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let ttl = room.short_ttl();
    let mut dropped = room.enter_with("one who vanishes", &key, |request| request.ttl = ttl);
    let lease = dropped.gets_it().await?.lasts();
    drop(dropped);
    let mut next = room.enter("the next", &key);
    next.gets_it_after(lease).await?;
    next.releases().await
}
