//! All the rules, over TLS and with the fewest rights.

use async_trait::async_trait;
use lab::proxy::Proxy;
use lockkeeper::{
    Key, Result,
    conformance::{self, Ability, Lab, Neighbour},
    engine::Engine,
};

use super::{
    super::labs::delete_all_of,
    rights::{Place, rights},
};
use crate::{engines::assert_kept, neighbour::Process};

/// A server with certificates, and before it a proxy that can be cut.
struct Encrypted {
    place: Place,
    proxy: Proxy,
}

impl Encrypted {
    fn start() -> Self {
        let place = Place::start("native");
        place.add_user("worker", &rights("native"));
        let proxy = Proxy::to(place.servers[0].port()).unwrap();
        Self { place, proxy }
    }

    fn url(&self) -> String {
        self.place.url_at([self.proxy.port()].into_iter(), "worker")
    }
}

#[async_trait]
impl Lab for Encrypted {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        delete_all_of(key, |words| self.place.servers[0].server.command(words).unwrap());
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

#[test]
fn native_over_tls_with_the_fewest_rights_keeps_the_rules() {
    // What no engine over a network can promise.
    let skipped = [
        "answers_at_once_need_no_waiting",
        "a_loss_is_told_before_anybody_asks",
        "a_stopped_process_keeps_the_lock",
    ];
    assert_kept(&Encrypted::start(), &skipped);
}
