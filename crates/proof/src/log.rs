//! The files that workers write under a lock: the history, and a count that is easily lost.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::history::{Entry, Mark};

/// A history, open for writing at its end.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        File::options().append(true).create(true).open(path).map(Self)
    }

    /// One call that stays within one page, so that a kill leaves a whole line or none, and who
    /// reads meanwhile sees no half of it.
    pub(crate) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        self.0.write_all(line_of(entry).as_bytes())
    }
}

/// The whole history; none, if nobody has written yet.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Entry>> {
    match fs::read_to_string(path) {
        Ok(text) => text.lines().map(entry_of).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Its last entry, while others may be writing.
pub(crate) fn last(path: &Path) -> io::Result<Option<Entry>> {
    let file = File::open(path)?;
    let n_lines = file.metadata()?.len() / LINE_BYTES as u64;
    let Some(before) = n_lines.checked_sub(1) else { return Ok(None) };
    let mut line = [0; LINE_BYTES];
    file.read_exact_at(&mut line, before * LINE_BYTES as u64)?;
    entry_of(&String::from_utf8_lossy(&line)).map(Some)
}

/// All lines have the same length, of which a page is a multiple.
const LINE_BYTES: usize = 128;

fn line_of(Entry { mark, fence, worker, at_ns, count }: &Entry) -> String {
    let mark = match mark {
        Mark::Enter => "enter",
        Mark::Leave => "leave",
    };
    let line = format!("{mark} {fence} {worker} {at_ns} {count}");
    format!("{line:width$}\n", width = LINE_BYTES - 1)
}

fn entry_of(line: &str) -> io::Result<Entry> {
    let broken = || io::Error::other(format!("a line of the history cannot be read: {line:?}"));
    let (mark, numbers) = line.trim_end().split_once(' ').ok_or_else(broken)?;
    let mark = match mark {
        "enter" => Mark::Enter,
        "leave" => Mark::Leave,
        _ => return Err(broken()),
    };
    let numbers: Vec<u64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [fence, worker, at_ns, count] => {
            let worker = u32::try_from(worker).map_err(|_| broken())?;
            Ok(Entry { mark, fence, worker, at_ns, count })
        }
        _ => Err(broken()),
    }
}

/// A count in a plain file, which nothing but the lock protects.
#[derive(Debug)]
pub(crate) struct Count(File);

impl Count {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    pub(crate) fn read(&self) -> io::Result<u64> {
        let mut text = [0; 20];
        match self.0.read_at(&mut text, 0)? {
            0 => Ok(0),
            n_bytes => String::from_utf8_lossy(&text[..n_bytes]).parse().map_err(io::Error::other),
        }
    }

    /// Always the same width in one call, so that a kill leaves the old count or the new one.
    pub(crate) fn write(&self, count: u64) -> io::Result<()> {
        self.0.write_all_at(format!("{count:020}").as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_read_again() {
        let folder = lab::Folder::new().unwrap();
        let path = folder.join("log");
        assert!(read(&path).unwrap().is_empty());
        let entry = |mark| Entry { mark, fence: u64::MAX, worker: 7, at_ns: 8, count: 9 };
        let mut log = Log::open(&path).unwrap();
        for mark in [Mark::Enter, Mark::Leave].repeat(20) {
            log.append(&entry(mark)).unwrap();
            assert_eq!(last(&path).unwrap(), Some(entry(mark)));
            assert_eq!(fs::metadata(&path).unwrap().len() % LINE_BYTES as u64, 0);
        }
        assert_eq!(read(&path).unwrap(), [Mark::Enter, Mark::Leave].map(entry).repeat(20));
    }

    #[test]
    fn broken_lines_are_refused() {
        for line in ["", "enter", "enter 1 2 3", "enter 1 2 3 4 5", "enter 1 x 3 4", "come 1 2 3 4"]
        {
            assert!(entry_of(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_count_starts_at_nought_and_keeps_what_was_written() {
        let folder = lab::Folder::new().unwrap();
        let count = Count::open(&folder.join("count")).unwrap();
        assert_eq!(count.read().unwrap(), 0);
        count.write(u64::MAX).unwrap();
        count.write(12).unwrap();
        assert_eq!(count.read().unwrap(), 12);
    }
}
