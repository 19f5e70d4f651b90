//! The engines: which are built in, and which URL scheme names which.

use std::path::Path;

use crate::{
    engine::{
        Engine, Moment,
        error::{Call, Error, Result},
    },
    tools::url::Url,
};

#[cfg(all(feature = "file", target_os = "linux"))]
pub mod file;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(any(feature = "memcached", feature = "redis"))]
#[cfg_attr(
    not(all(feature = "memcached", feature = "redis")),
    allow(dead_code, reason = "not every engine with servers needs all of it")
)]
mod net;
#[cfg(feature = "redis")]
pub mod redis;

/// Opens the engine that the URL names; without a URL, the embedded default.
pub(crate) async fn open(url: Option<&str>, now: Moment) -> Result<Box<dyn Engine>> {
    let Some(url) = url else { return open_file(None) };
    let url = Url::parse(url)?;
    match name_of_scheme(&url.scheme) {
        Some("file") => open_file(Some(folder_of(&url)?)),
        Some("memory") => open_memory(table_of(&url)?),
        Some("redis" | "redlock") => open_redis(url, now).await,
        Some("memcached") => open_memcached(url, now).await,
        _ => Err(Error::bad_options(format!(
            "no engine is called {:?}; write file:, memcached: or redis:, or one of the kin of redis:",
            url.scheme
        ))),
    }
}

/// The name of the engine that the URL means, if there is one.
pub(crate) fn name_of(url: &str) -> Option<&'static str> {
    name_of_scheme(&Url::parse(url).ok()?.scheme)
}

fn name_of_scheme(scheme: &str) -> Option<&'static str> {
    match scheme {
        "file" => Some("file"),
        "memory" => Some("memory"),
        "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
        | "rediss+cluster" => Some("redis"),
        "redlock" | "redlocks" => Some("redlock"),
        "memcached" | "memcacheds" => Some("memcached"),
        _ => None,
    }
}

fn folder_of(url: &Url) -> Result<&Path> {
    url.no_more_parameters()?;
    let here = matches!(url.authority.as_deref(), None | Some("" | "localhost"));
    if !here || !url.path.starts_with('/') {
        return Err(Error::bad_options(
            "a file: URL needs an absolute folder on this machine, as in file:///var/lib/app/locks",
        ));
    }
    Ok(Path::new(&url.path))
}

#[cfg(all(feature = "file", target_os = "linux"))]
fn open_file(folder: Option<&Path>) -> Result<Box<dyn Engine>> {
    file::open(folder).map_err(|error| error.at(file::NAME, None, Call::Connect))
}

#[cfg(not(all(feature = "file", target_os = "linux")))]
fn open_file(_: Option<&Path>) -> Result<Box<dyn Engine>> {
    let message =
        "the file engine needs Linux (open file description locks) and the crate feature `file`";
    Err(Error::unsupported(message).at("file", None, Call::Connect))
}

fn table_of(url: &Url) -> Result<&str> {
    url.no_more_parameters()?;
    if url.authority.is_some() {
        return Err(Error::bad_options("write memory: or memory:name, without slashes"));
    }
    Ok(&url.path)
}

#[cfg(feature = "memory")]
fn open_memory(table: &str) -> Result<Box<dyn Engine>> {
    Ok(Box::new(memory::Memory::named(table)))
}

#[cfg(not(feature = "memory"))]
fn open_memory(_: &str) -> Result<Box<dyn Engine>> {
    let message = "memory: needs the crate feature `memory`";
    Err(Error::unsupported(message).at("memory", None, Call::Connect))
}

#[cfg(feature = "redis")]
async fn open_redis(url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    let opened = redis::open(url, now).await;
    opened.map_err(|error| error.at(redis::NAME, None, Call::Connect))
}

#[cfg(not(feature = "redis"))]
async fn open_redis(_: Url, _: Moment) -> Result<Box<dyn Engine>> {
    let message = "redis: needs the crate feature `redis`";
    Err(Error::unsupported(message).at("redis", None, Call::Connect))
}

#[cfg(feature = "memcached")]
async fn open_memcached(url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    let opened = memcached::open(url, now).await;
    opened.map_err(|error| error.at(memcached::NAME, None, Call::Connect))
}

#[cfg(not(feature = "memcached"))]
async fn open_memcached(_: Url, _: Moment) -> Result<Box<dyn Engine>> {
    let message = "memcached: needs the crate feature `memcached`";
    Err(Error::unsupported(message).at("memcached", None, Call::Connect))
}
