//! Giving the lock back.

use std::time::Duration;

use futures_lite::future;

use super::{always, rule, with_leases};
use crate::{
    conformance::{
        Rule,
        room::{Finding, Room, ensure},
    },
    engine::{OwnerId, Released, Request},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        always,
        a_released_key_is_free_at_once,
        "after a release is confirmed, the next attempt is granted"
    ),
    rule!(always, releasing_twice_is_harmless, "a second release of the same claim is no error"),
    rule!(always, releasing_before_asking_is_harmless, "a claim that never asked can be released"),
    rule!(
        always,
        a_release_never_touches_anothers_lock,
        "a release by anyone but the holder leaves the holder alone"
    ),
    rule!(
        always,
        a_late_release_never_touches_the_next_holder,
        "a release repeated after the lock has moved on leaves its new holder alone"
    ),
    rule!(
        always,
        a_release_works_after_a_call_cut_short,
        "a claim whose attempt was given up half-way can be released, and the key is free then"
    ),
    rule!(
        with_leases,
        a_release_tells_that_the_lock_was_taken_away,
        "a holder that the engine does not know any more is told so when it releases, and only once"
    ),
    rule!(
        always,
        a_claim_that_is_used_again_is_as_good_as_new,
        "a claim is used again only when nothing is left of its last request, and knows only the new one"
    ),
];

async fn a_released_key_is_free_at_once(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    for _ in 0..3 {
        let mut one = room.enter("the next claim after a release", &key);
        one.gets_it().await?;
        one.releases().await?;
    }
    Ok(())
}

async fn releasing_twice_is_harmless(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut one = room.enter("the holder", &key);
    one.gets_it().await?;
    one.releases().await?;
    one.releases().await?;
    let mut next = room.enter("the next", &key);
    next.gets_it().await?;
    next.releases().await
}

async fn releasing_before_asking_is_harmless(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    room.enter("one who never asked", &key).releases().await?;
    let mut next = room.enter("the next", &key);
    next.gets_it().await?;
    next.releases().await
}

async fn a_release_never_touches_anothers_lock(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    room.enter("one who never asked", &key).releases().await?;
    holder.still_has_it().await?;
    let mut waiter = room.enter("one who waited", &key);
    waiter.is_told_busy().await?;
    waiter.releases().await?;
    holder.still_has_it().await?;
    let mut other = room.enter("one who asked after others released", &key);
    other.is_told_busy().await?;
    other.releases().await?;
    holder.releases().await
}

async fn a_late_release_never_touches_the_next_holder(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut first = room.enter("the first", &key);
    first.gets_it().await?;
    first.releases().await?;
    let mut second = room.enter("the second", &key);
    second.gets_it().await?;
    first.releases().await?;
    second.still_has_it().await?;
    let mut third = room.enter("a third", &key);
    third.is_told_busy().await?;
    third.releases().await?;
    second.releases().await
}

async fn a_release_tells_that_the_lock_was_taken_away(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    for is_taken_by_another in [false, true] {
        let mut one = room.enter("the one whose lock is taken away", &key);
        one.gets_it().await?;
        room.take_away(&key).await?;
        let mut next = room.enter("the next", &key);
        if is_taken_by_another {
            next.gets_it_after(Duration::ZERO).await?;
        }
        let told = one.is_released().await?;
        ensure!(told == Released::NotOurs, "a release of what was taken away answered {told:?}");
        one.releases().await?;
        if is_taken_by_another {
            next.still_has_it().await?;
        }
        next.releases().await?;
    }
    Ok(())
}

async fn a_claim_that_is_used_again_is_as_good_as_new(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut one = room.enter("one who is used again", &key);
    let mut before = one.gets_it().await?;
    for ttl in [room.short_ttl(), Duration::from_secs(30), Duration::from_secs(30)] {
        ensure!(!one.is_reusable(), "a claim would serve again while it holds");
        one.releases().await?;
        if !one.is_reusable() {
            return Ok(());
        }
        let request = Request::new(key.clone(), OwnerId(fastrand::u128(..)), ttl);
        let reused = one.claim.quick().map(|quick| quick.reuse(request));
        ensure!(matches!(reused, Some(Ok(()))), "a claim did not serve again as it said");
        let mut other = room.enter("one who was faster", &key);
        other.gets_it().await?;
        one.is_told_busy().await?;
        ensure!(!one.is_reusable(), "a claim would serve again while it is in line");
        other.releases().await?;
        let after = one.gets_it_after(Duration::ZERO).await?;
        room.ensure_fence_grew(&before, &after)?;
        ensure!(
            after.lasts() <= ttl,
            "a claim that was used again got the lease of its last request"
        );
        before = after;
    }
    one.releases().await
}

async fn a_release_works_after_a_call_cut_short(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    for _ in 0..3 {
        let mut one = room.enter("one whose attempt was cut short", &key);
        // Whether the engine has granted it meanwhile, nobody here knows.
        drop(future::poll_once(one.claim.attempt(room.clock.now())).await);
        one.releases().await?;
        let mut next = room.enter("the next after an attempt cut short", &key);
        next.gets_it_after(Duration::ZERO).await?;
        next.releases().await?;
    }
    Ok(())
}
