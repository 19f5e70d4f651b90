#![doc = include_str!("page.md")]

mod claim;
mod disk;
mod folder;
mod holds;
mod inspect;
mod interrupt;
mod open_file;
mod pool;
mod queue;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Mutex},
};

use nix::libc;

use self::{
    claim::FileClaim,
    folder::Folder,
    holds::Holds,
    open_file::OpenFile,
    pool::Pool,
    queue::{crew::Crew, ranges::Tried},
};
use crate::{
    engine::{
        Answers, Claim, Engine, Expiry, Fairness, Fencing, Inspector, Moment, Profile, Reach,
        Request, Wake,
        error::{Error, ErrorKind, Result},
        key::Key,
    },
    tools::{fork::Origin, sync::locked, url::Url},
};

/// The engine's name in errors, events and `who`.
pub(crate) const NAME: &str = "file";

/// How often opening a file is tried that is removed each time in the same moment.
const MAX_OPENINGS: usize = 64;

/// Opens the file engine on the folder that a `file:` URL names.
pub(crate) async fn open(url: Url, _: Moment) -> Result<Box<dyn Engine>> {
    url.no_more_parameters()?;
    let here = matches!(url.authority.as_deref(), None | Some("" | "localhost"));
    if !here || !url.path.starts_with('/') {
        return Err(Error::bad_options(
            "a file: URL needs an absolute folder on this machine, as in file:///var/lib/app/locks",
        ));
    }
    open_folder(Path::new(&url.path))
}

/// Opens the file engine in the user's state folder: the embedded default.
pub(crate) fn open_default() -> Result<Box<dyn Engine>> {
    open_folder(&folder::default_path()?)
}

fn open_folder(path: &Path) -> Result<Box<dyn Engine>> {
    Ok(Box::new(FileEngine::new(Folder::open(path)?, boot_id()?)))
}

#[derive(Debug)]
struct FileEngine {
    shared: Arc<Shared>,
}

/// What the claims of one engine share.
#[derive(Debug)]
struct Shared {
    origin: Origin,
    boot: u128,
    folder: Mutex<Arc<Folder>>,
    pool: Pool,
    holds: Holds,
    crew: Crew,
}

impl FileEngine {
    fn new(folder: Folder, boot: u128) -> Self {
        Self {
            shared: Arc::new(Shared {
                origin: Origin::here(),
                boot,
                folder: Mutex::new(Arc::new(folder)),
                pool: Pool::default(),
                holds: Holds::default(),
                crew: Crew::new(),
            }),
        }
    }
}

impl Engine for FileEngine {
    fn profile(&self) -> Profile {
        let mut profile = Profile::weakest(NAME);
        profile.reach = Reach::Machine;
        profile.expiry = Expiry::Session;
        profile.fairness = Fairness::FirstCome;
        profile.fencing = Fencing::Durable;
        profile.wake = Wake::Told;
        profile.answers = Answers::AtOnce;
        profile.promise = "On this machine, among processes of this user that open the same \
                           file, at most one holds the lock, even if it is paused.";
        profile.broken_by = "Removing or replacing the file of a key while the lock is held; a folder on a network \
                             file system, where each machine has locks of its own.";
        profile
    }

    fn place(&self) -> Option<String> {
        // In a forked child the mutex may be locked for ever.
        self.shared.check_process().ok()?;
        Some(format!("file://{}", locked(&self.shared.folder).path().display()))
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(FileClaim::new(Arc::clone(&self.shared), request))
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

impl Shared {
    /// A forked child shares the locks of its parent: it must not touch them.
    fn check_process(&self) -> Result<()> {
        if self.origin.is_here() {
            return Ok(());
        }
        Err(Error::refused("opened before a fork; connect again in this process"))
    }

    /// The folder; opened anew if its path leads to another one by now.
    fn folder(&self) -> Result<Arc<Folder>> {
        let mut folder = locked(&self.folder);
        if !folder.is_in_place()? {
            *folder = Arc::new(Folder::open(folder.path())?);
        }
        Ok(Arc::clone(&folder))
    }

    fn open(&self, key: &Key, now: Moment) -> Result<Box<OpenFile>> {
        for _ in 0..MAX_OPENINGS {
            let open = || OpenFile::open(self.folder()?, self.boot, key, now);
            if let Some(file) = self.with_descriptors(open)? {
                return Ok(file);
            }
        }
        Err(Error::new(
            ErrorKind::Other,
            "the file of the key is removed whenever it is opened; find out who does that",
        ))
    }

    /// Does something that needs descriptors. If there are no more of them, those of unused files are
    /// given back, and it is done again.
    fn with_descriptors<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if is_out_of_descriptors(&error) && self.pool.empty() => work(),
            answer => answer,
        }
    }

    /// Keeps an unlocked file open for the next claim. The one that has to go for it is removed
    /// if nobody uses it, so that keys made up for one use do not leave a file each.
    fn keep(&self, file: Box<OpenFile>) {
        if file.is_handed_out() {
            return;
        }
        if let Some(mut oldest) = self.pool.give(file)
            && oldest.try_lock().is_ok_and(|tried| tried == Tried::Taken)
        {
            // Cleaning up in passing: a file that cannot be removed stays, as it would anyway.
            let _ = oldest.retire();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        match self.check_process() {
            Ok(()) => self.crew.close(),
            Err(_) => self.pool.leave(),
        }
    }
}

/// Says what could not be done, and where it is known, what to do about it.
fn failed(doing: impl fmt::Display, error: io::Error) -> Error {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};

    let is_full_table = is_full_table(&error);
    let (kind, hint) = match error.kind() {
        PermissionDenied => (ErrorKind::Refused, ": no right to; check who owns the folder"),
        ReadOnlyFilesystem => (ErrorKind::Refused, ": the disk is read-only; use another folder"),
        StorageFull | QuotaExceeded => (ErrorKind::Other, ": the disk is full; free some space"),
        _ if is_full_table => (ErrorKind::Other, ": too many open files; raise the limit"),
        _ => (ErrorKind::Other, ""),
    };
    Error::new(kind, format!("could not {doing}{hint}")).because(error)
}

fn is_full_table(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether there were too many open files to do it.
fn is_out_of_descriptors(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    source.and_then(|source| source.downcast_ref()).is_some_and(is_full_table)
}

/// Which boot of the machine this is: what was written during another one may be outdated.
fn boot_id() -> Result<u128> {
    let doing = "read the boot id from /proc, which must be mounted";
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|error| failed(doing, error))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).map_err(|error| failed(doing, io::Error::other(error)))
}
