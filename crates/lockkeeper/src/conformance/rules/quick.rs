//! The quick way, for claims that have one: it may do nothing that the long way would not.

use std::{future::poll_fn, time::Duration};

use super::{always, rule};
use crate::{
    conformance::{
        Rule,
        contender::Contender,
        room::{Finding, Room, Stop, ensure},
    },
    engine::{Attempt, Released, key::Key},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        always,
        the_quick_way_grants_only_what_is_free,
        "an attempt the quick way is never granted while another holds the key, and a grant of it is a whole one"
    ),
    rule!(
        always,
        the_quick_way_releases_for_good,
        "a release that the quick way confirms has freed the key, and only its own"
    ),
    rule!(
        always,
        a_quick_call_given_up_leaves_nothing_behind,
        "a claim whose quick call was given up can be released as ever"
    ),
];

/// What an attempt the quick way came to.
enum Came {
    Granted,
    Busy,
    /// The long way has to be gone.
    NotSo,
}

impl Contender<'_> {
    async fn asks_quickly(&mut self) -> Finding<Came> {
        let now = self.room.clock.now();
        if !self.claim.quick().is_some_and(|quick| quick.send_attempt(now)) {
            return Ok(Came::NotSo);
        }
        let answer = poll_fn(|context| match self.claim.quick() {
            Some(quick) => quick.poll_attempt(context),
            None => std::task::Poll::Ready(Ok(None)),
        });
        let what = format!("a quick answer to {}", self.name);
        Ok(match self.room.within(self.room.limit(), &what, answer).await?? {
            Some(Attempt::Granted(_)) => Came::Granted,
            Some(Attempt::Busy { .. }) => Came::Busy,
            None => Came::NotSo,
        })
    }

    /// What the release was confirmed with; nothing if the long way has to be gone.
    async fn releases_quickly(&mut self) -> Finding<Option<Released>> {
        let now = self.room.clock.now();
        if !self.claim.quick().is_some_and(|quick| quick.send_release(now)) {
            return Ok(None);
        }
        let answer = poll_fn(|context| match self.claim.quick() {
            Some(quick) => quick.poll_release(context),
            None => std::task::Poll::Ready(Ok(None)),
        });
        let what = format!("a quick release by {}", self.name);
        Ok(self.room.within(self.room.limit(), &what, answer).await??)
    }
}

/// One with the lock, got the quick way if that goes. The first attempts of an engine may take the long way, so
/// the key has been used before.
async fn holder<'a>(room: &'a Room<'a>, name: &'static str) -> Finding<(Contender<'a>, Key)> {
    let key = room.key()?;
    let mut before = room.enter("one who was there before", &key);
    before.gets_it().await?;
    before.releases().await?;
    let mut one = room.enter(name, &key);
    match one.asks_quickly().await? {
        Came::Granted => one.still_has_it().await?,
        Came::Busy => {
            return Err(Stop::Broken(format!("{name} was told busy though the key was free")));
        }
        Came::NotSo => {
            one.gets_it().await?;
        }
    }
    Ok((one, key))
}

async fn the_quick_way_grants_only_what_is_free(room: &Room<'_>) -> Finding {
    let (mut one, key) = holder(room, "one who asks quickly").await?;
    for _ in 0..3 {
        let mut other = room.enter("one who asks quickly what is held", &key);
        if let Came::Granted = other.asks_quickly().await? {
            return Err(Stop::Broken("the quick way granted what another holds".into()));
        }
        other.is_told_busy().await?;
        other.releases().await?;
    }
    one.still_has_it().await?;
    one.releases().await
}

async fn the_quick_way_releases_for_good(room: &Room<'_>) -> Finding {
    let (mut one, key) = holder(room, "one who releases quickly").await?;
    if let Some(released) = one.releases_quickly().await? {
        ensure!(
            released == Released::Done,
            "a quick release of what it held answered {released:?}"
        );
        let mut next = room.enter("the next after a quick release", &key);
        next.gets_it_after(Duration::ZERO).await?;
        // Nothing is left to release, and the next one's is not its own.
        one.releases().await?;
        next.still_has_it().await?;
        next.releases().await?;
    } else {
        one.releases().await?;
    }
    Ok(())
}

async fn a_quick_call_given_up_leaves_nothing_behind(room: &Room<'_>) -> Finding {
    for gives_up_the_release in [false, true] {
        let (mut one, key) = holder(room, "one who gives up").await?;
        let now = room.clock.now();
        if gives_up_the_release {
            one.claim.quick().map(|quick| quick.send_release(now));
        } else {
            one.releases().await?;
            one.claim = room.enter("one who gives up", &key).claim;
            one.claim.quick().map(|quick| quick.send_attempt(now));
        }
        one.is_released().await?;
        let mut next = room.enter("the next after one who gave up", &key);
        next.gets_it_after(Duration::ZERO).await?;
        next.still_has_it().await?;
        next.releases().await?;
    }
    Ok(())
}
