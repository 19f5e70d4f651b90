//! The folder of locks: opened once, checked once, and all files opened relative to it.

use std::{
    fs::{DirBuilder, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat},
    sys::{
        stat::{FileStat, Mode, fstatat},
        statfs::fstatfs,
    },
    unistd::{AccessFlags, UnlinkatFlags, User, faccessat, geteuid, unlinkat},
};

use super::{disk::network, failed};
use crate::engine::error::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    handle: File,
    /// A descriptor on which every lock call fails; what a wait is cancelled with.
    blind: OwnedFd,
    id: FileId,
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    pub(super) inode: u64,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| failed("find the folder", error))?;
        // Without a slash or a dot at its end, which would let the last name be a link.
        let path: PathBuf = path.components().collect();
        let doing = format!("open the folder {}", path.display());
        let trouble = |errno: Errno| failed(&doing, errno.into());

        create(&path)?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let handle = match openat(AT_FDCWD, &path, OFlag::O_RDONLY | flags, Mode::empty()) {
            Ok(handle) => File::from(handle),
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                return Err(Error::refused(format!(
                    "{} is a symbolic link or not a folder; name the folder itself",
                    path.display()
                )));
            }
            Err(errno) => return Err(trouble(errno)),
        };
        let blind = openat(&handle, ".", OFlag::O_PATH | flags, Mode::empty()).map_err(trouble)?;
        let meta = handle.metadata().map_err(|error| failed(&doing, error))?;
        check(&path, &handle, &meta)?;
        Ok(Self { path, blind, id: FileId { device: meta.dev(), inode: meta.ino() }, handle })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn handle(&self) -> &File {
        &self.handle
    }

    pub(super) fn blind(&self) -> &OwnedFd {
        &self.blind
    }

    /// Whether its path still leads to it.
    pub(super) fn is_in_place(&self) -> Result<bool> {
        Ok(id_at(AT_FDCWD, &self.path)? == Some(self.id))
    }

    /// Which file has this name now.
    pub(super) fn id_of(&self, name: &str) -> Result<Option<FileId>> {
        id_at(&self.handle, Path::new(name))
    }

    /// Opens a file, creating it if need be, and refuses what cannot be a file of ours.
    ///
    /// `nlink` of the answer is 0 if it was removed in the same moment.
    pub(super) fn open_file(&self, name: &str) -> Result<(File, FileStat)> {
        let trouble = |error| failed(format!("open {name}"), error);
        let flags = OFlag::O_RDWR
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        // Reading must not write; only the owner may ask for that.
        let file = match openat(&self.handle, name, flags | OFlag::O_NOATIME, mode) {
            Err(Errno::EPERM) => openat(&self.handle, name, flags, mode),
            other => other,
        };
        let file = match file {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP) => {
                return Err(Error::refused(format!(
                    "{name} is a symbolic link; remove it from the folder of locks"
                )));
            }
            Err(errno) => return Err(trouble(errno.into())),
        };
        let stat = nix::sys::stat::fstat(&file).map_err(|errno| trouble(errno.into()))?;
        let what = if stat.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG {
            "is not a regular file"
        } else if stat.st_uid != geteuid().as_raw() {
            "belongs to another user"
        } else if stat.st_nlink > 1 {
            "has more than one name"
        } else {
            return Ok((file, stat));
        };
        Err(Error::refused(format!("{name} {what}; use a folder that only this user writes to")))
    }

    /// Opens a file just to look at it; `None` if there is none, or something else in its place.
    pub(super) fn look_at(&self, name: &str) -> Result<Option<File>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                let meta =
                    file.metadata().map_err(|error| failed(format!("look at {name}"), error))?;
                Ok(meta.is_file().then_some(file))
            }
            Err(Errno::ENOENT | Errno::ELOOP) => Ok(None),
            Err(errno) => Err(failed(format!("open {name}"), errno.into())),
        }
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(&self.handle, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(failed(format!("remove {name}"), errno.into())),
        }
    }

    /// The names of all files that end with `suffix`.
    pub(super) fn names(&self, suffix: &str) -> Result<Vec<String>> {
        let trouble = |errno: Errno| failed("list the folder of locks", errno.into());
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = Dir::openat(&self.handle, ".", flags, Mode::empty()).map_err(trouble)?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            // Our names are plain letters; anything else is not ours.
            if let Ok(name) = entry.map_err(trouble)?.file_name().to_str()
                && name.ends_with(suffix)
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

impl From<&FileStat> for FileId {
    fn from(stat: &FileStat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Where locks live when nobody says otherwise: a place that survives a reboot.
pub(super) fn default_path() -> Result<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from("XDG_STATE_HOME").or_else(|| {
        let home = from("HOME").or_else(|| Some(User::from_uid(geteuid()).ok()??.dir))?;
        Some(home.join(".local/state"))
    });
    match state {
        Some(state) => Ok(state.join("lockkeeper/locks")),
        None => Err(Error::new(
            ErrorKind::BadOptions,
            "this user has no home folder; set XDG_STATE_HOME, or name a folder as in file:///var/lib/app/locks",
        )),
    }
}

fn id_at(at: impl std::os::fd::AsFd, path: &Path) -> Result<Option<FileId>> {
    match fstatat(at, path, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileId::from(&stat))),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(errno) => Err(failed(format!("look for {}", path.display()), errno.into())),
    }
}

/// Creates what is missing of the path, durably: with the folder the fence numbers would be lost.
fn create(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    // Wherever a folder cannot be made now, none can be made later without somebody's help.
    let trouble = |error: io::Error| {
        Error::refused(format!(
            "could not create the folder {}: {error}; create it or name another",
            path.display()
        ))
    };
    if let Some(parent) = path.parent() {
        create(parent)?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(trouble(error));
            }
            Ok(()) | Err(_) => {}
        }
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(trouble)?;
    }
    Ok(())
}

fn check(path: &Path, handle: &File, meta: &std::fs::Metadata) -> Result<()> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let refused = |what: &str| Err(Error::refused(format!("the folder {} {what}", path.display())));

    if meta.uid() != geteuid().as_raw() {
        return refused("belongs to another user; use one that is yours");
    }
    if meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0 {
        return refused("can be written by others; take the right from them (chmod go-w)");
    }
    let rights = AccessFlags::W_OK | AccessFlags::X_OK;
    if faccessat(handle, ".", rights, AtFlags::AT_EACCESS).is_err() {
        return refused("cannot be written; give yourself the right, or use another");
    }
    let stat = fstatfs(handle).map_err(|errno| failed("ask for the file system", errno.into()))?;
    // The number has 32 bits; the field's type differs by platform.
    if let Some(name) = network::not_local(stat.filesystem_type().0 as u32) {
        return refused(&format!(
            "is on {name}, where locks do not hold between machines; use a local disk, or an engine with a server"
        ));
    }
    Ok(())
}
