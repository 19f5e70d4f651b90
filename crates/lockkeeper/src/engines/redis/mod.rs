#![doc = include_str!("page.md")]

use self::{
    dialects::{native::Native, plain::Plain, redisson::Redisson},
    server::settings::{Dialect, Settings},
};
use crate::{
    engine::{Engine, Moment, error::Result},
    tools::url::Url,
};

mod dialects;
mod server;
mod wire;

/// Opens what a `redis:` URL, or one of its kin, names.
pub(crate) async fn open(url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    if let "redlock" | "redlocks" = url.scheme.as_str() {
        return dialects::redlock::open(url, now).await;
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
