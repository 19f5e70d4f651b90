//! Folders on a disk, gone when they are dropped.

use std::{
    env, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A folder that is removed with all its contents when it is dropped.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// Makes one beside the running program: a build folder is on a disk, while the system's
    /// folder for temporary files is often memory.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        tempfile::Builder::new().prefix("lab-").tempdir_in(folder_of_program()?).map(Self)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A name in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The URL of the file engine in a folder of this name in it.
    pub fn url(&self, name: &str) -> String {
        format!("file://{}", self.join(name).display())
    }
}

/// Another program of the same build.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if it has not been built.
pub fn program_beside(name: &str) -> io::Result<PathBuf> {
    let path = folder_of_program()?.join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("{} is not there; build it", path.display()),
    ))
}

/// The name of the file system that the path is on, such as `ext4`.
///
/// # Errors
/// What the system says.
pub fn file_system(path: &Path) -> io::Result<String> {
    let path = path.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    Ok(kind_of_mount(&mounts, &path).unwrap_or("unknown").to_owned())
}

fn folder_of_program() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    program.parent().map(Path::to_owned).ok_or_else(|| io::Error::other("a program has a folder"))
}

/// The mount that leads deepest to the path; of two at the same place the later one is on top.
fn kind_of_mount<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let leading = fields.filter(|fields| fields.len() > 2 && path.starts_with(fields[1]));
    leading.max_by_key(|fields| Path::new(fields[1]).components().count()).map(|fields| fields[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\nnone /build tmpfs rw 0 0\n/dev/b /build xfs rw 0 0\n";
        assert_eq!(kind_of_mount(mounts, Path::new("/home/me")), Some("ext4"));
        assert_eq!(kind_of_mount(mounts, Path::new("/build/x")), Some("xfs"));
        assert_eq!(kind_of_mount(mounts, Path::new("/buildings")), Some("ext4"));
    }

    #[test]
    fn a_dropped_folder_is_gone() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_owned();
        std::fs::write(folder.join("x"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
