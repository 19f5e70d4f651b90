//! The rules of the contract, on a real server.

use async_trait::async_trait;
use lab::{memcached::Memcached, proxy::Proxy};
use lockkeeper::{
    Key, Result,
    conformance::{self, Ability, Lab, Neighbour},
    engine::Engine,
};

use crate::{engines::assert_kept, neighbour::Process};

/// One server behind a proxy that can be cut.
struct Single {
    server: Memcached,
    proxy: Proxy,
    parameters: &'static str,
}

impl Single {
    fn start(parameters: &'static str) -> Self {
        let server = Memcached::start().unwrap();
        let proxy = Proxy::to(server.port()).unwrap();
        Self { server, proxy, parameters }
    }

    fn url(&self) -> String {
        format!("memcached://{}{}", self.proxy.address(), self.parameters)
    }
}

#[async_trait]
impl Lab for Single {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        let prefix = if self.parameters.is_empty() { "" } else { "__TOOZ_LOCK_" };
        self.server.command(format!("md {prefix}{}\r\n", key.as_str())).unwrap();
        Ability::Yes(())
    }

    async fn cut_off(&self) -> Ability {
        self.proxy.refuse();
        self.proxy.cut();
        Ability::Yes(())
    }

    async fn heal(&self) {
        self.proxy.accept_again();
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::Yes(Box::new(Process::start(&self.url())))
    }
}

/// What the server cannot do: answer without waiting, tell a waiter, keep an order, give fences, and keep
/// the lock of a process that is stopped.
const SKIPPED: [&str; 12] = [
    "answers_at_once_need_no_waiting",
    "a_waiter_is_told_when_its_turn_comes",
    "a_dropped_wait_for_change_can_be_taken_up_again",
    "everyone_in_line_is_told_in_turn",
    "first_come_first_served",
    "a_newcomer_does_not_overtake",
    "fences_grow",
    "fences_grow_over_an_expired_lease",
    "fences_grow_over_a_loss",
    "fences_grow_over_tidying",
    "a_loss_is_told_before_anybody_asks",
    "a_stopped_process_keeps_the_lock",
];

#[test]
fn memcached_keeps_the_rules() {
    assert_kept(&Single::start(""), &SKIPPED);
}

#[test]
fn the_tooz_dialect_keeps_the_rules() {
    assert_kept(&Single::start("?dialect=tooz"), &SKIPPED);
}
