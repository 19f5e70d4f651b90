//! Waiting one's turn.

use std::time::Duration;

use futures_lite::future;

use super::{always, in_order, rule, told};
use crate::conformance::{
    Rule, Run,
    contender::Contender,
    room::{Finding, Room},
};

/// How many wait in rules about order.
const N_WAITERS: usize = 5;

pub(super) const RULES: &[Rule] = &[
    rule!(
        told,
        a_waiter_is_told_when_its_turn_comes,
        "a waiter that only listens is told when the key is free for it"
    ),
    rule!(
        told,
        a_dropped_wait_for_change_can_be_taken_up_again,
        "a waiter that stops listening and listens again has missed nothing"
    ),
    rule!(
        told,
        everyone_in_line_is_told_in_turn,
        "when several listen, each is told when its turn comes"
    ),
    rule!(
        in_order,
        first_come_first_served,
        "those who wait are served in the order they came, however often others ask"
    ),
    rule!(
        in_order,
        a_newcomer_does_not_overtake,
        "a free key goes to who waits for it, not to who asks first"
    ),
    rule!(
        always,
        a_waiter_that_left_is_forgotten,
        "a waiter that was released keeps nobody waiting, also when it had listened"
    ),
    rule!(
        always,
        a_waiter_that_vanished_costs_no_more_than_its_lease,
        "waiters that were dropped without a release cost those behind them one short lease, not one each"
    ),
];

async fn a_waiter_is_told_when_its_turn_comes(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("the waiter", &key);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    let release = async {
        // The other is listening by then; if not, it must be told all the same.
        room.pause(Duration::from_millis(20)).await;
        holder.releases().await
    };
    let (released, won) = future::zip(release, waiter.gets_it_when_told()).await;
    released?;
    won?;
    waiter.releases().await
}

async fn a_dropped_wait_for_change_can_be_taken_up_again(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("a waiter that stopped listening", &key);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    for _ in 0..3 {
        waiter.listens_for_a_moment().await?;
    }
    holder.releases().await?;
    waiter.gets_it_when_told().await?;
    waiter.releases().await
}

async fn everyone_in_line_is_told_in_turn(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    let mut waiters = line_up(room, &key).await?;
    let turns = waiters.iter_mut().map(|waiter| async move {
        waiter.gets_it_when_told().await?;
        waiter.releases().await
    });
    let mut all: Run<'_> = Box::pin(async move { holder.releases().await });
    for turn in turns {
        all = Box::pin(async move {
            let (before, this) = future::zip(all, turn).await;
            before.and(this)
        });
    }
    all.await
}

/// Lets several enter and be told busy, one after the other.
async fn line_up<'a>(
    room: &'a Room<'_>,
    key: &crate::engine::key::Key,
) -> Finding<Vec<Contender<'a>>> {
    const NAMES: [&str; N_WAITERS] =
        ["the first in line", "the second", "the third", "the fourth", "the fifth"];
    let mut waiters = Vec::new();
    for name in NAMES {
        let mut waiter = room.enter(name, key);
        waiter.is_told_busy().await?;
        waiters.push(waiter);
    }
    Ok(waiters)
}

async fn first_come_first_served(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    let mut waiters = line_up(room, &key).await?;
    holder.releases().await?;
    while !waiters.is_empty() {
        // The last asks first: only the engine's own order can be the reason for its answer.
        for later in waiters[1..].iter_mut().rev() {
            later.is_told_busy().await?;
        }
        let mut first = waiters.remove(0);
        first.gets_it_after(Duration::ZERO).await?;
        for later in waiters.iter_mut().rev() {
            later.is_told_busy().await?;
        }
        first.releases().await?;
    }
    Ok(())
}

async fn a_newcomer_does_not_overtake(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("the waiter", &key);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    holder.releases().await?;
    let mut newcomer = room.enter("a newcomer", &key);
    newcomer.is_told_busy().await?;
    waiter.gets_it_after(Duration::ZERO).await?;
    waiter.releases().await?;
    newcomer.gets_it_after(Duration::ZERO).await?;
    newcomer.releases().await
}

async fn a_waiter_that_left_is_forgotten(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    let mut waiters = line_up(room, &key).await?;
    let mut behind = room.enter("one who stayed in line", &key);
    behind.is_told_busy().await?;
    for (n, waiter) in waiters.iter_mut().enumerate() {
        if n % 2 == 0 {
            waiter.listens_for_a_moment().await?;
        }
        waiter.releases().await?;
    }
    holder.releases().await?;
    behind.gets_it().await?;
    behind.releases().await
}

async fn a_waiter_that_vanished_costs_no_more_than_its_lease(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    holder.gets_it().await?;
    drop(line_up(room, &key).await?);
    let mut behind = room.enter("one behind waiters that vanished", &key);
    behind.is_told_busy().await?;
    holder.releases().await?;
    behind.gets_it_after(Duration::ZERO).await?;
    behind.releases().await
}
