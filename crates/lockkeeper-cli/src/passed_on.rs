//! The URL of the engine: where it comes from, and how it is passed on to the command, so that a
//! `lockkeeper` inside it uses the same engine.
//!
//! A URL with a user or a password does not stand in the environment of the command. It lies in the
//! memory of the outer `lockkeeper`, where processes of the same user may read it; a variable says
//! where. It is gone with the run, however the run ends.

use std::process::Command;

use crate::{
    exit::{Exit, Failure},
    message,
};

/// The variable that names the engine.
pub(crate) const URL: &str = "LOCKKEEPER_URL";
/// The variable that tells a command of the runs it is part of.
pub(crate) const HELD: &str = "LOCKKEEPER_HELD";
/// The variable that says where a URL with a password can be read.
const URL_FROM: &str = "LOCKKEEPER_URL_FROM";

/// The URL to use: as given, or that of the run around us. `None` is the embedded default.
pub(crate) fn url(given: Option<&str>) -> Result<Option<String>, Failure> {
    let url = match (given, std::env::var(URL_FROM)) {
        (Some(url), _) => Some(url.to_owned()),
        (None, Ok(from)) => Some(kept::read(&from).ok_or_else(out_of_reach)?),
        (None, Err(std::env::VarError::NotUnicode(_))) => return Err(out_of_reach()),
        (None, Err(std::env::VarError::NotPresent)) => None,
    };
    match &url {
        Some(url) if url.is_empty() => Err(Failure::new(
            Exit::Usage,
            "the URL is empty; name an engine, as in file:///var/lib/app/locks, or, if the embedded \
             default is meant, give no --url and unset LOCKKEEPER_URL",
        )),
        Some(url) if is_memory(url) => Err(Failure::new(
            Exit::Usage,
            "memory: excludes nobody outside this process; give no URL to lock for this user on this \
             machine, or name a folder or a server, as in file:///var/lib/app/locks",
        )),
        Some(url) => match lockkeeper::engines::missing_feature(url) {
            Some(feature) => Err(not_built_in(url, feature)),
            None => Ok(Some(url.clone())),
        },
        None => Ok(None),
    }
}

/// Whether this URL is the one that the environment names, in a command that `lockkeeper` runs.
pub(crate) fn is_from_outer_run(url: Option<&str>) -> bool {
    std::env::var_os(HELD).is_some() && std::env::var(URL).ok().as_deref() == url && url.is_some()
}

fn out_of_reach() -> Failure {
    Failure::new(
        Exit::Refused,
        "the lockkeeper run around this command has ended or cannot be reached from here, and with it \
         the URL of its engine, which has a password; set LOCKKEEPER_URL, or, if the embedded default is \
         meant, unset LOCKKEEPER_URL_FROM",
    )
}

fn not_built_in(url: &str, feature: &str) -> Failure {
    let scheme = url.split(':').next().unwrap_or_default();
    Failure::new(
        Exit::Refused,
        format!(
            "this lockkeeper was built without {scheme}:; in a clone of its source, cargo install --path \
             crates/lockkeeper-cli --features {feature} builds one that has it (--features full: every engine)"
        ),
    )
}

fn is_memory(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("memory"))
}

/// What the command gets to know of the engine.
#[derive(Debug, Default)]
pub(crate) enum PassedOn {
    /// Nothing: no URL can name the folder of the embedded default.
    #[default]
    Default,
    /// The URL, which is no secret.
    Url(String),
    /// Where the URL can be read.
    From(kept::Kept),
}

impl PassedOn {
    pub(crate) fn new(url: Option<&str>) -> Self {
        match url {
            None => Self::Default,
            Some(url) if message::has_secret(url) => Self::From(kept::Kept::new(url)),
            Some(url) => Self::Url(url.to_owned()),
        }
    }

    /// Puts it into the environment of the command.
    pub(crate) fn put_into(&self, child: &mut Command) {
        child.env_remove(URL_FROM);
        match self {
            Self::Default => {}
            Self::Url(url) => drop(child.env(URL, url)),
            Self::From(kept) => drop(child.env_remove(URL).env(URL_FROM, kept.place())),
        }
    }
}

/// A text in memory that processes of this user find through `/proc`.
#[cfg(target_os = "linux")]
mod kept {
    use std::{
        fs::{self, File},
        hash::{BuildHasher, RandomState},
        io::{Read, Write},
        os::fd::AsRawFd,
    };

    use nix::sys::memfd::{MFdFlags, memfd_create};

    const NAME: &str = "lockkeeper-url";
    /// What the system says that such a descriptor leads to.
    const LEADS_TO: &str = "/memfd:lockkeeper-url (deleted)";
    /// Longer than any URL that can be meant.
    const MOST_BYTES: u64 = 64 * 1024;

    /// A URL in the memory of this process.
    #[derive(Debug)]
    pub(crate) struct Kept {
        _file: Option<File>,
        place: String,
    }

    impl Kept {
        pub(super) fn new(url: &str) -> Self {
            let process = std::process::id();
            // A number of our own: process ids are used again, and mean others in a container.
            let number = RandomState::new().hash_one(process);
            let file = memfd_create(NAME, MFdFlags::MFD_CLOEXEC).map(File::from);
            let file = file.ok().filter(|mut file| write!(file, "{number}\n{url}").is_ok());
            let place = match &file {
                Some(file) => format!("{process}/{}/{number}", file.as_raw_fd()),
                None => "nowhere".into(),
            };
            Self { _file: file, place }
        }

        /// Process, descriptor and number; a place that leads nowhere if there was no memory.
        pub(super) fn place(&self) -> &str {
            &self.place
        }
    }

    /// The URL that is kept at this place, if it still is.
    pub(super) fn read(place: &str) -> Option<String> {
        let mut parts = place.split('/');
        let (process, descriptor, number) = (parts.next()?, parts.next()?, parts.next()?);
        let (process, descriptor): (u32, u32) = (process.parse().ok()?, descriptor.parse().ok()?);
        let path = format!("/proc/{process}/fd/{descriptor}");
        // To open what is something else by now might wait for ever.
        if fs::read_link(&path).ok()?.to_str() != Some(LEADS_TO) {
            return None;
        }
        let mut text = String::new();
        File::open(&path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let (its_number, url) = text.split_once('\n')?;
        (its_number == number && !url.is_empty()).then(|| url.to_owned())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_url_is_found_while_it_is_kept_and_by_its_number_only() {
            let kept = Kept::new("redis://:canary@host");
            let place = kept.place().to_owned();
            assert!(!place.contains("canary") && !format!("{kept:?}").contains("canary"));
            assert_eq!(read(&place).as_deref(), Some("redis://:canary@host"));
            assert_eq!(read(&format!("{place}1")), None, "another number");
            for nowhere in ["", "nowhere", "1/2", "x/y/z", "0/0/0", "../../etc/passwd"] {
                assert_eq!(read(nowhere), None, "{nowhere}");
            }
            drop(kept);
            assert_eq!(read(&place), None, "it is gone");
        }
    }
}

/// Elsewhere there is no such place, and a `lockkeeper` inside the command is refused.
#[cfg(not(target_os = "linux"))]
mod kept {
    #[derive(Debug)]
    pub(crate) struct Kept;

    impl Kept {
        pub(super) fn new(_url: &str) -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "on Linux there is something to tell")]
        pub(super) fn place(&self) -> &str {
            "nowhere"
        }
    }

    pub(super) fn read(_place: &str) -> Option<String> {
        None
    }
}
