//! Looks at key files, taking nothing and writing nothing; and cleans up when asked.

use std::{fs::File, os::unix::fs::MetadataExt, time::Duration};

use async_trait::async_trait;

use super::{
    FileEngine, Shared,
    disk::{
        layout::{Contents, Page},
        name,
        record::Record,
    },
    failed,
    folder::Folder,
    queue::{
        self, processes,
        ranges::{ALL, LOCK, PLACES, Tried, taken},
    },
};
use crate::engine::{
    Inspector, Listed, Moment, Party, Who,
    error::{ErrorKind, Result},
    key::Key,
};

/// A record may be read while it is written; so often it is read again.
const MAX_READS: usize = 8;

#[async_trait]
impl Inspector for FileEngine {
    async fn who(&self, key: &Key, _now: Moment) -> Result<Who> {
        let folder = self.shared.folder()?;
        match self.shared.with_descriptors(|| folder.look_at(&name::of(key)))? {
            Some(file) => who(&file),
            None => Ok(Who::default()),
        }
    }

    async fn list(&self, _now: Moment) -> Result<Vec<Listed>> {
        let folder = self.shared.folder()?;
        let mut listed = Vec::new();
        for name in self.shared.with_descriptors(|| folder.names(name::SUFFIX))? {
            if let Some((file, key)) = self.shared.with_descriptors(|| ours(&folder, &name))? {
                listed.push(list_one(&file, key)?);
            }
        }
        listed.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(listed)
    }

    async fn tidy(&self, idle: Duration, now: Moment) -> Result<usize> {
        self.shared.check_process()?;
        let folder = self.shared.folder()?;
        let mut n_removed = 0;
        for name in self.shared.with_descriptors(|| folder.names(name::SUFFIX))? {
            if let Some((file, key)) = self.shared.with_descriptors(|| ours(&folder, &name))?
                && is_older(&file, idle, now)?
                // Looking disturbs nobody; only what seems free is locked for a moment.
                && is_free(&file)?
                && self.shared.remove(&key, now)?
            {
                n_removed += 1;
            }
        }
        Ok(n_removed)
    }
}

impl Shared {
    /// Removes the file of a key unless somebody holds it or waits.
    fn remove(&self, key: &Key, now: Moment) -> Result<bool> {
        let mut file = match self.open(key, now) {
            Ok(file) => file,
            // What could not be locked need not be cleaned up.
            Err(error) if error.kind() == ErrorKind::Refused => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(file.try_lock()? == Tried::Taken && file.retire()?)
    }
}

fn who(file: &File) -> Result<Who> {
    let trouble = |errno: nix::errno::Errno| failed("look at the lock", errno.into());
    let mut who = Who::default();
    if taken(file, LOCK).map_err(trouble)?.is_some() {
        who.holder = Some(holder(file)?);
    }
    let places = queue::places(file).map_err(trouble)?;
    if !places.is_empty() {
        let inode = file.metadata().map_err(|error| failed("look at the file", error))?.ino();
        let pids = processes::with_locks_on(inode);
        who.line.extend(places.iter().map(|place| Party {
            pid: pids.get(&PLACES.nth(*place)).copied(),
            host: host(),
            ..Party::default()
        }));
    }
    Ok(who)
}

fn holder(file: &File) -> Result<Party> {
    let party = Party { host: host(), ..Party::default() };
    for _ in 0..MAX_READS {
        let page = Page::read(file).map_err(|error| failed("read the record", error))?;
        if let Some(Record { pid, label, since_us, fence, .. }) = page.record() {
            return Ok(Party {
                pid: Some(pid),
                label: Some(label).filter(|label| !label.is_empty()),
                since_us: Some(since_us),
                fence: Some(fence),
                ..party
            });
        }
    }
    Ok(party)
}

fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn list_one(file: &File, key: Key) -> Result<Listed> {
    let trouble = |errno: nix::errno::Errno| failed("look at the lock", errno.into());
    Ok(Listed {
        key,
        held: taken(file, LOCK).map_err(trouble)?.is_some(),
        n_waiting: queue::places(file).map_err(trouble)?.len(),
    })
}

/// The file and its key; `None` if it is not ours, not where its key would look for it, or not
/// filled yet.
fn ours(folder: &Folder, name: &str) -> Result<Option<(File, Key)>> {
    let file = match folder.look_at(name) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::Refused => return Ok(None),
        Err(error) => return Err(error),
    };
    let page = Page::read(&file).map_err(|error| failed(format!("read {name}"), error))?;
    let Contents::Ours(Some(key)) = page.contents() else { return Ok(None) };
    let key = Key::new(&key).ok().filter(|key| name::of(key) == name);
    Ok(key.map(|key| (file, key)))
}

fn is_free(file: &File) -> Result<bool> {
    let taken = taken(file, ALL).map_err(|errno| failed("look at the lock", errno.into()))?;
    Ok(taken.is_none())
}

/// Files in use are written at least once a minute, so the last change tells the last use.
fn is_older(file: &File, idle: Duration, now: Moment) -> Result<bool> {
    if idle.is_zero() {
        return Ok(true);
    }
    let meta = file.metadata().map_err(|error| failed("look at the file", error))?;
    let changed_us = meta.mtime() * 1_000_000 + meta.mtime_nsec() / 1_000;
    let idle_us = u64::try_from(idle.as_micros()).unwrap_or(u64::MAX);
    Ok(u64::try_from(changed_us).unwrap_or(0).saturating_add(idle_us) <= now.wall_micros())
}
