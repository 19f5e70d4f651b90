//! Looking at locks without disturbing them.

use std::time::Duration;

use super::{always, rule};
use crate::{
    conformance::{
        Rule,
        room::{Finding, Room, Stop, ensure},
    },
    engine::{Fairness, Inspector, Party, Who, key::Key},
};

pub(super) const RULES: &[Rule] = &[
    rule!(always, who_sees_holder_and_line, "who tells the holder and, in order, those who wait"),
    rule!(
        always,
        who_sees_nobody_at_a_free_key,
        "who tells nobody before the first and after the last, and takes nothing itself"
    ),
    rule!(
        always,
        the_list_knows_what_is_held,
        "the list has every held key, in the alphabet's order"
    ),
    rule!(always, tidying_spares_what_is_in_use, "cleaning up leaves holders and waiters alone"),
];

pub(super) fn no_inspector<T>(room: &Room<'_>) -> Finding<T> {
    Err(Stop::Skipped(format!("{} has no inspector", room.profile.engine)))
}

async fn who(room: &Room<'_>, inspector: &dyn Inspector, key: &Key) -> Finding<Who> {
    Ok(room
        .within(room.limit(), "an answer to who", inspector.who(key, room.clock.now()))
        .await??)
}

async fn who_sees_holder_and_line(room: &Room<'_>) -> Finding {
    let Some(inspector) = room.engine().inspector() else { return no_inspector(room) };
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut first = room.enter("the first in line", &key);
    let mut second = room.enter("the second in line", &key);
    let won = holder.gets_it().await?;
    first.is_told_busy().await?;
    second.is_told_busy().await?;
    // An engine may write down who holds only when a hold lasts.
    holder.still_has_it().await?;
    let seen = who(room, inspector, &key).await?;
    let Some(party) = &seen.holder else {
        return Err(Stop::Broken("who saw no holder of a held key".into()));
    };
    let fences = won.fence..won.fence + u64::from(won.n_fences);
    ensure!(
        party.fence.is_none_or(|fence| fence == 0 || fences.contains(&fence)),
        "who saw fence {:?} where {fences:?} was granted",
        party.fence
    );
    ensure!(is(party, holder.name), "who took {party:?} for the holder");
    // Where nobody keeps an order, nobody need know who waits.
    if room.profile.fairness == Fairness::FirstCome || !seen.line.is_empty() {
        ensure!(seen.line.len() == 2, "who saw {} of 2 in line", seen.line.len());
        for (party, waiter) in seen.line.iter().zip([&first, &second]) {
            ensure!(is(party, waiter.name), "who took {party:?} for {}", waiter.name);
        }
    }
    for contender in [&mut second, &mut first, &mut holder] {
        contender.releases().await?;
    }
    Ok(())
}

/// Whether what is known of a party fits: one of ours, with this label.
fn is(party: &Party, label: &str) -> bool {
    party.label.as_deref().is_none_or(|known| known == label)
        && party.pid.is_none_or(|pid| pid == std::process::id())
}

async fn who_sees_nobody_at_a_free_key(room: &Room<'_>) -> Finding {
    let Some(inspector) = room.engine().inspector() else { return no_inspector(room) };
    let key = room.key()?;
    ensure!(
        who(room, inspector, &key).await? == Who::default(),
        "who saw somebody at a key that nobody has asked for"
    );
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("the waiter", &key);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    waiter.releases().await?;
    holder.releases().await?;
    let seen = who(room, inspector, &key).await?;
    ensure!(seen == Who::default(), "who saw {seen:?} after the last had left");
    Ok(())
}

async fn the_list_knows_what_is_held(room: &Room<'_>) -> Finding {
    let Some(inspector) = room.engine().inspector() else { return no_inspector(room) };
    let keys = [room.key()?, room.key()?];
    let mut holders = [room.enter("one holder", &keys[0]), room.enter("another holder", &keys[1])];
    for holder in &mut holders {
        holder.gets_it().await?;
        holder.still_has_it().await?;
    }
    let list = room.within(room.limit(), "the list", inspector.list(room.clock.now())).await??;
    for key in &keys {
        let held = list.iter().any(|listed| listed.key == *key && listed.held);
        ensure!(held, "the list does not say that {key:?} is held");
    }
    ensure!(list.is_sorted_by(|a, b| a.key < b.key), "the list is not in the alphabet's order");
    for holder in &mut holders {
        holder.releases().await?;
    }
    let list = room.within(room.limit(), "the list", inspector.list(room.clock.now())).await??;
    let held = list.iter().find(|listed| listed.held && keys.contains(&listed.key));
    ensure!(held.is_none(), "the list says that a released key is held: {held:?}");
    Ok(())
}

async fn tidying_spares_what_is_in_use(room: &Room<'_>) -> Finding {
    let Some(inspector) = room.engine().inspector() else { return no_inspector(room) };
    let key = room.key()?;
    let mut holder = room.enter("the holder", &key);
    let mut waiter = room.enter("the waiter", &key);
    holder.gets_it().await?;
    waiter.is_told_busy().await?;
    let tidying = inspector.tidy(Duration::ZERO, room.clock.now());
    room.within(room.limit(), "the end of tidying", tidying).await??;
    holder.still_has_it().await?;
    waiter.is_told_busy().await?;
    let mut newcomer = room.enter("a newcomer", &key);
    newcomer.is_told_busy().await?;
    newcomer.releases().await?;
    holder.releases().await?;
    waiter.gets_it_after(Duration::ZERO).await?;
    waiter.releases().await
}
