//! Asking for the lock.

use std::time::Duration;

use futures_lite::future;

use super::{always, at_once, rule};
use crate::{
    conformance::{
        Rule,
        room::{Finding, Room, ensure},
    },
    engine::{Fencing, Order, Patience, Request},
};

pub(super) const RULES: &[Rule] = &[
    rule!(always, a_free_key_is_granted_at_once, "the first attempt on a free key is granted"),
    rule!(
        always,
        a_grant_says_at_least_one_fence,
        "a grant has at least one number, and 0 only where the profile says there are none"
    ),
    rule!(
        at_once,
        answers_at_once_need_no_waiting,
        "where the profile says so, an attempt and the release of a hold are ready when first polled"
    ),
    rule!(
        always,
        a_second_claim_is_told_busy,
        "while one holds the key, others are told busy, however often they ask"
    ),
    rule!(
        always,
        the_same_owner_asking_again_gets_the_same_fence,
        "an attempt repeated after a lost answer is granted with the same fence"
    ),
    rule!(
        always,
        an_attempt_cut_short_can_be_repeated,
        "a claim whose attempt was given up half-way is not taken for a stranger when it asks again"
    ),
    rule!(
        always,
        asking_twice_needs_one_release,
        "attempts are not counted: one release undoes them all"
    ),
    rule!(
        always,
        a_try_never_enters_the_queue,
        "a claim that does not mean to wait leaves nothing for others to wait behind"
    ),
    rule!(
        always,
        asking_again_is_enough,
        "a waiter that never listens gets its turn by asking again"
    ),
    rule!(
        always,
        barging_may_overtake_but_nobody_is_forgotten,
        "a claim that may overtake excludes like any other, and those who wait get their turn after it"
    ),
];

async fn a_free_key_is_granted_at_once(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    for patience in [Patience::Waits, Patience::Tries] {
        for order in [Order::FirstCome, Order::Barging] {
            let mut one = room.enter_with("the only claim", &key, |request| {
                request.patience = patience;
                request.order = order;
            });
            one.gets_it().await?;
            one.releases().await?;
        }
    }
    Ok(())
}

async fn answers_at_once_need_no_waiting(room: &Room<'_>) -> Finding {
    let mut one = room.enter("the only claim", &room.key()?);
    let attempt = future::poll_once(one.claim.attempt(room.clock.now())).await;
    ensure!(attempt.is_some(), "the attempt has to be waited for");
    let release = future::poll_once(one.claim.release(room.clock.now())).await;
    ensure!(release.is_some(), "the release of a hold has to be waited for");
    Ok(())
}

async fn a_grant_says_at_least_one_fence(room: &Room<'_>) -> Finding {
    let mut one = room.enter("the only claim", &room.key()?);
    let won = one.gets_it().await?;
    ensure!(won.n_fences >= 1, "the grant has no fences");
    let has_fences = room.profile.fencing != Fencing::None;
    ensure!(
        (won.fence > 0) == has_fences,
        "the fence is {}, but the profile says {:?}",
        won.fence,
        room.profile.fencing
    );
    one.releases().await
}

async fn a_second_claim_is_told_busy(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut first = room.enter("the first", &key);
    let mut across = room.enter("a second on another connection", &key);
    let mut beside = room.enter("a third on the same connection", &key);
    first.gets_it().await?;
    // The third answer must not depend on having asked before.
    for _ in 0..3 {
        across.is_told_busy().await?;
        beside.is_told_busy().await?;
    }
    first.still_has_it().await?;
    for other in [&mut across, &mut beside, &mut first] {
        other.releases().await?;
    }
    Ok(())
}

async fn the_same_owner_asking_again_gets_the_same_fence(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut one = room.enter("the holder", &key);
    let mut other = room.enter("another", &key);
    let first = one.gets_it().await?;
    for _ in 0..2 {
        let again = one.gets_it().await?;
        ensure!(
            (again.fence, again.n_fences) == (first.fence, first.n_fences),
            "fence {} became {} by asking again",
            first.fence,
            again.fence
        );
        other.is_told_busy().await?;
    }
    other.releases().await?;
    one.releases().await
}

async fn an_attempt_cut_short_can_be_repeated(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    for _ in 0..3 {
        let mut one = room.enter("one whose attempt was cut short", &key);
        // Whether the engine has granted it meanwhile, nobody here knows.
        drop(future::poll_once(one.claim.attempt(room.clock.now())).await);
        one.gets_it().await?;
        one.still_has_it().await?;
        one.releases().await?;
    }
    Ok(())
}

async fn asking_twice_needs_one_release(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut one = room.enter("the holder", &key);
    for _ in 0..3 {
        one.gets_it().await?;
    }
    one.releases().await?;
    let mut next = room.enter("the next", &key);
    next.gets_it().await?;
    next.releases().await
}

async fn a_try_never_enters_the_queue(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    let tries = |request: &mut Request| request.patience = Patience::Tries;
    let mut visitor = room.enter_with("one who only tried", &key, tries);
    visitor.is_told_busy().await?;
    holder.releases().await?;
    // It has not been released: trying alone must leave nothing behind.
    let mut next = room.enter("one who came after a try", &key);
    next.gets_it().await?;
    next.releases().await?;
    visitor.releases().await
}

async fn asking_again_is_enough(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("a waiter that never listens", &key);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    holder.releases().await?;
    waiter.gets_it_after(Duration::ZERO).await?;
    waiter.releases().await
}

async fn barging_may_overtake_but_nobody_is_forgotten(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("the waiter", &key);
    let barges = |request: &mut Request| request.order = Order::Barging;
    let mut barging = room.enter_with("one who barges", &key, barges);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    barging.is_told_busy().await?;
    holder.releases().await?;
    // Not every engine can let anyone overtake; but it must not let two in.
    if barging.asks().await?.is_ok() {
        waiter.is_told_busy().await?;
    }
    barging.releases().await?;
    waiter.gets_it_after(Duration::ZERO).await?;
    waiter.releases().await
}
