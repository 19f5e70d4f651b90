//! Which process stands at which place: the kernel tells it of each open file.

use std::{collections::HashMap, fs, path::Path};

/// The processes that have write locks on a file, by the first byte of the lock; only those whose
/// files we may look at.
pub(in super::super) fn with_locks_on(inode: u64) -> HashMap<u64, u32> {
    let mut found = HashMap::new();
    for pid in numbers_in(Path::new("/proc")) {
        let infos = format!("/proc/{pid}/fdinfo");
        for descriptor in numbers_in(Path::new(&infos)) {
            // Files and processes may be gone by now, and others' are not for us to see.
            let info = fs::read_to_string(format!("{infos}/{descriptor}")).unwrap_or_default();
            for start in info.lines().filter_map(|line| write_lock(line, inode)) {
                found.entry(start).or_insert(pid);
            }
        }
    }
    found
}

fn numbers_in(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// As in `lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:1234 1099511627776 1099511627776`. The device is
/// not compared: on some file systems it is not the one that `stat` tells.
fn write_lock(line: &str, inode: u64) -> Option<u64> {
    let mut words = line.strip_prefix("lock:")?.split_ascii_whitespace().skip(1);
    let is_ours = words.next()? == "OFDLCK" && words.nth(1)? == "WRITE";
    let of: u64 = words.nth(1)?.rsplit(':').next()?.parse().ok()?;
    let start = words.next()?.parse().ok()?;
    (is_ours && of == inode).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "lock:\t1: OFDLCK  ADVISORY  WRITE -1 fe:00:1234 2199023255552 2199023255552";
        assert_eq!(write_lock(line, 1234), Some(2_199_023_255_552));
        assert_eq!(write_lock(line, 1235), None);
        assert_eq!(write_lock(&line.replace("WRITE", "READ"), 1234), None);
        assert_eq!(write_lock(&line.replace("OFDLCK", "POSIX"), 1234), None);
        assert_eq!(write_lock("pos:\t0", 1234), None);
    }
}
