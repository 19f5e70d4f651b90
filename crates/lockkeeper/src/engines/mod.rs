//! The engines: which are built in, and which URL scheme names which.

use std::pin::Pin;

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
#[cfg(feature = "_net")]
#[cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "not every engine with servers needs all of it")
)]
mod net;
#[cfg(feature = "redis")]
pub mod redis;

/// A row of the table; the feature, and the system where the engine needs one, are said only here.
macro_rules! kind {
    ($name:literal, $schemes:expr, $feature:literal $(on $system:literal)?, $open:path) => {
        Kind {
            name: $name,
            schemes: &$schemes,
            feature: $feature,
            has_feature: cfg!(feature = $feature),
            needs: concat!("the crate feature `", $feature, "`" $(, " and the system ", $system)?),
            #[cfg(all(feature = $feature $(, target_os = $system)?))]
            open: Some(|url, now| Box::pin($open(url, now))),
            #[cfg(not(all(feature = $feature $(, target_os = $system)?)))]
            open: None,
        }
    };
}

/// Every engine that there is, built in or not. A new engine adds its row, and its module above.
const KINDS: &[Kind] = &[
    kind!("file", ["file"], "file" on "linux", file::open),
    kind!(
        "redis",
        ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",],
        "redis",
        redis::open
    ),
    kind!("redlock", ["redlock", "redlocks"], "redis", redis::open),
    kind!("memcached", ["memcached", "memcacheds"], "memcached", memcached::open),
    kind!("memory", ["memory"], "memory", memory::open),
];

/// One kind of engine.
struct Kind {
    /// The name in errors.
    name: &'static str,
    /// The URL schemes that mean this engine; messages name the first.
    schemes: &'static [&'static str],
    feature: &'static str,
    has_feature: bool,
    /// What an engine that is not built in needs, for people.
    needs: &'static str,
    /// `None` if the engine is not built in.
    open: Option<fn(Url, Moment) -> Opening>,
}

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn Engine>>> + Send>>;

/// Opens the engine that the URL names; without a URL, the embedded default.
pub(crate) async fn open(url: Option<&str>, now: Moment) -> Result<Box<dyn Engine>> {
    match url {
        Some(url) => open_one_of(KINDS, Url::parse(url)?, now).await,
        None => open_embedded(),
    }
}

async fn open_one_of(kinds: &[Kind], url: Url, now: Moment) -> Result<Box<dyn Engine>> {
    let Some(kind) = kinds.iter().find(|kind| kind.is_meant_by(&url)) else {
        return Err(no_such_engine(kinds, &url.scheme));
    };
    let opened = match kind.open {
        Some(open) => open(url, now).await,
        None => Err(Error::unsupported(format!("{}: needs {}", url.scheme, kind.needs))),
    };
    opened.map_err(|error| error.at(kind.name, None, Call::Connect))
}

#[cfg(all(feature = "file", target_os = "linux"))]
fn open_embedded() -> Result<Box<dyn Engine>> {
    file::open_default().map_err(|error| error.at(file::NAME, None, Call::Connect))
}

#[cfg(not(all(feature = "file", target_os = "linux")))]
fn open_embedded() -> Result<Box<dyn Engine>> {
    let message = "the embedded default needs Linux (open file description locks) and the crate feature `file`";
    Err(Error::unsupported(message).at("file", None, Call::Connect))
}

/// The name of the engine that the URL means, if there is one.
pub(crate) fn name_of(url: &str) -> Option<&'static str> {
    Some(kind_of(KINDS, url)?.name)
}

/// The crate feature that would build in the engine of this URL; `None` if the engine is built in, or if there is
/// no such engine.
///
/// For programs that pass features of this crate on as features of their own, and say so to their users.
#[must_use]
pub fn missing_feature(url: &str) -> Option<&'static str> {
    missing_feature_of(KINDS, url)
}

fn missing_feature_of(kinds: &[Kind], url: &str) -> Option<&'static str> {
    let kind = kind_of(kinds, url)?;
    (!kind.has_feature).then_some(kind.feature)
}

fn kind_of<'a>(kinds: &'a [Kind], url: &str) -> Option<&'a Kind> {
    let url = Url::parse(url).ok()?;
    kinds.iter().find(|kind| kind.is_meant_by(&url))
}

impl Kind {
    fn is_meant_by(&self, url: &Url) -> bool {
        self.schemes.contains(&url.scheme.as_str())
    }
}

fn no_such_engine(kinds: &[Kind], scheme: &str) -> Error {
    // memory: is for tests: whoever mistypes a URL wants to exclude other processes.
    let shown = kinds.iter().filter(|kind| kind.name != "memory");
    let shown: Vec<_> = shown.map(|kind| format!("{}:", kind.schemes[0])).collect();
    let (last, others) =
        shown.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let others = others.join(", ");
    Error::bad_options(format!("no engine is called {scheme:?}; write {others} or {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::error::ErrorKind, tools::block_on::block_on};

    const PLANTED: &[Kind] = &[
        kind!("memory", ["memory"], "memory", memory::open),
        Kind {
            open: None,
            has_feature: false,
            ..kind!("there", ["there", "theres"], "memory", memory::open)
        },
        Kind { open: None, ..kind!("far", ["far"], "memory", memory::open) },
    ];

    fn refusal(url: &str) -> Error {
        let opened = block_on(open_one_of(PLANTED, Url::parse(url).unwrap(), Moment::NEVER));
        opened.map(drop).unwrap_err()
    }

    #[test]
    fn an_engine_that_is_not_built_in_says_which_feature_brings_it() {
        let error = refusal("theres://host");
        assert_eq!((error.kind(), error.engine()), (ErrorKind::Unsupported, Some("there")));
        let text = error.to_string();
        assert!(text.contains("theres: needs the crate feature `memory`"), "{text}");
        assert_eq!(missing_feature_of(PLANTED, "theres://host"), Some("memory"));
        // On a system for which an engine is not made, no feature helps.
        assert_eq!(refusal("far:").kind(), ErrorKind::Unsupported);
        for url in ["far:", "memory:", "nowhere:", "no URL"] {
            assert_eq!(missing_feature_of(PLANTED, url), None, "{url}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_told_which_there_are() {
        let error = refusal("their://host");
        assert_eq!(error.kind(), ErrorKind::BadOptions);
        let text = error.to_string();
        assert!(text.contains("no engine is called \"their\"; write there: or far:"), "{text}");
    }

    #[test]
    fn every_scheme_means_one_engine() {
        let mut schemes: Vec<_> = KINDS.iter().flat_map(|kind| kind.schemes).collect();
        let n_schemes = schemes.len();
        schemes.sort();
        schemes.dedup();
        assert_eq!(schemes.len(), n_schemes);
    }
}
