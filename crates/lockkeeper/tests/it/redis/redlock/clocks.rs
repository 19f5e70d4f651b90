//! Servers whose clocks are wrong.

use std::time::Duration;

use lab::redis::Five;
use lockkeeper::Locks;

use super::KEY;
use crate::tools::LONG;

/// Far more than the machine can be late by.
const AHEAD: Duration = Duration::from_secs(3_600);

/// What the page says that redlock cannot do: the one server that knows of both grants forgets the
/// first one, so only the fence is left to tell the holders apart.
#[tokio::test]
async fn one_clock_that_jumps_ahead_lets_two_hold_after_a_bare_majority_and_the_fence_grows() {
    let five = Five::start_with_own_clocks().unwrap();
    let here = Locks::connect(&five.url()).await.unwrap();
    let there = Locks::connect(&five.url()).await.unwrap();
    for server in &five.servers[3..] {
        server.command(&["SET", KEY, "theirs"]).unwrap().not_an_error().unwrap();
    }
    let first = here.lock(KEY).ttl(LONG).acquire().await.unwrap();
    for server in &five.servers[3..] {
        server.command(&["DEL", KEY]).unwrap().not_an_error().unwrap();
    }
    assert!(there.lock(KEY).try_acquire().await.unwrap().is_none());
    five.servers[0].set_clock_ahead(AHEAD).unwrap();
    let second = there.lock(KEY).ttl(LONG).acquire_within(LONG).await.unwrap();
    assert!(second.fence() > first.fence(), "{first:?} {second:?}");
}

#[tokio::test]
async fn a_clock_that_was_ahead_before_and_is_set_right_harms_nobody() {
    let five = Five::start_with_own_clocks().unwrap();
    for server in &five.servers[..2] {
        server.set_clock_ahead(AHEAD).unwrap();
    }
    let here = Locks::connect(&five.url()).await.unwrap();
    let there = Locks::connect(&five.url()).await.unwrap();
    let first = here.lock(KEY).ttl(LONG).acquire().await.unwrap();
    for server in &five.servers[..2] {
        server.set_clock_ahead(Duration::ZERO).unwrap();
    }
    assert!(there.lock(KEY).try_acquire().await.unwrap().is_none());
    let fence = first.fence();
    first.release().await.unwrap();
    let second = there.lock(KEY).acquire_within(LONG).await.unwrap();
    assert!(second.fence() > fence, "{fence} {second:?}");
}
