//! Redis in all its forms. The page `redis.md` says what each promises.

use self::{
    native::Native,
    plain::Plain,
    redisson::Redisson,
    settings::{Dialect, Settings},
};
use crate::{
    engine::{Engine, Moment, error::Result},
    tools::url::Url,
};

mod behind;
mod bits;
mod call;
mod check;
mod client;
mod cluster;
mod connection;
mod connections;
mod digits;
mod driver;
mod ear;
mod handshake;
mod home;
mod majority;
mod native;
mod outbox;
mod place;
mod plain;
mod redisson;
mod redlock;
mod refusal;
mod renewals;
mod replicas;
mod reply;
mod resp;
mod route;
mod script;
mod sentinel;
mod settings;
mod slot;
mod stake;
mod stream;
mod table;
mod tls;
mod together;
mod watch;
mod words;

/// The name in errors about opening it.
pub(crate) const NAME: &str = "redis";

/// Opens what a `redis:` URL, or one of its kin, names.
pub(crate) async fn open(url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    if let "redlock" | "redlocks" = url.scheme.as_str() {
        return redlock::open(url, now).await;
    }
    let settings = Settings::read(url)?;
    match settings.dialect {
        Dialect::Native => {
            let native = Native::new(&settings)?;
            native.client().check(now).await?;
            Ok(Box::new(native))
        }
        Dialect::Plain => {
            let plain = Plain::new(&settings)?;
            plain.client().check(now).await?;
            Ok(Box::new(plain))
        }
        Dialect::Redisson => {
            let redisson = Redisson::new(&settings)?;
            redisson.client().check(now).await?;
            Ok(Box::new(redisson))
        }
    }
}
