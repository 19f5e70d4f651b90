//! The numbers that grow.

use std::time::Duration;

use super::{rule, with_fences, with_leases};
use crate::{
    conformance::{
        Rule,
        contender::Won,
        room::{Finding, Room},
    },
    engine::{Profile, key::Key},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        with_fences,
        fences_grow,
        "every grant's numbers are larger than all numbers of the grant before, also when keys take turns"
    ),
    rule!(
        with_fences_and_leases,
        fences_grow_over_an_expired_lease,
        "the same when the holder before never released"
    ),
    rule!(with_fences, fences_grow_over_a_loss, "the same when the lock was taken away in between"),
    rule!(
        with_fences,
        fences_grow_over_tidying,
        "the same when unused keys were cleaned up in between"
    ),
];

fn with_fences_and_leases(profile: &Profile) -> bool {
    with_fences(profile) && with_leases(profile)
}

/// Takes the key and gives it back.
async fn passing_hold(room: &Room<'_>, key: &Key) -> Finding<Won> {
    let mut one = room.enter("one after the other", key);
    let won = one.gets_it().await?;
    one.releases().await?;
    Ok(won)
}

async fn fences_grow(room: &Room<'_>) -> Finding {
    let keys = [room.key()?, room.key()?];
    let mut before = [passing_hold(room, &keys[0]).await?, passing_hold(room, &keys[1]).await?];
    for n in 0..20 {
        // In pairs, so that the same connection comes twice in a row as well.
        let which = (n / 2) % 2;
        let after = passing_hold(room, &keys[which]).await?;
        room.ensure_fence_grew(&before[which], &after)?;
        before[which] = after;
    }
    Ok(())
}

async fn fences_grow_over_an_expired_lease(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let ttl = room.short_ttl();
    let mut before = passing_hold(room, &key).await?;
    for _ in 0..2 {
        let mut silent =
            room.enter_with("one who never releases", &key, |request| request.ttl = ttl);
        let after = silent.gets_it_after(before.lasts()).await?;
        room.ensure_fence_grew(&before, &after)?;
        before = after;
    }
    let mut last = room.enter("the last", &key);
    let after = last.gets_it_after(before.lasts()).await?;
    room.ensure_fence_grew(&before, &after)?;
    last.releases().await
}

async fn fences_grow_over_a_loss(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let mut before = passing_hold(room, &key).await?;
    for _ in 0..2 {
        let mut robbed = room.enter("one who is robbed", &key);
        let during = robbed.gets_it_after(Duration::ZERO).await?;
        room.ensure_fence_grew(&before, &during)?;
        room.take_away(&key).await?;
        let mut next = room.enter("the next", &key);
        let after = next.gets_it_after(Duration::ZERO).await?;
        room.ensure_fence_grew(&during, &after)?;
        robbed.is_released().await?;
        next.releases().await?;
        before = after;
    }
    Ok(())
}

async fn fences_grow_over_tidying(room: &Room<'_>) -> Finding {
    let Some(inspector) = room.engine().inspector() else {
        return super::looking::no_inspector(room);
    };
    let key = room.key()?;
    let mut before = passing_hold(room, &key).await?;
    for _ in 0..3 {
        let tidying = inspector.tidy(Duration::ZERO, room.clock.now());
        room.within(room.limit(), "the end of tidying", tidying).await??;
        let after = passing_hold(room, &key).await?;
        room.ensure_fence_grew(&before, &after)?;
        before = after;
    }
    Ok(())
}
