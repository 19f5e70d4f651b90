//! What a process uses: processor time, threads, descriptors.

use std::{fs, io};

/// The processor time a process has used, in the kernel's ticks (a hundredth of a second, mostly).
///
/// # Errors
/// If there is no such process.
pub fn cpu_ticks(id: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    ticks_of(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// How often the threads of a process have gone to sleep of their own will.
///
/// # Errors
/// If there is no such process.
pub fn n_sleeps(id: u32) -> io::Result<u64> {
    let mut n_sleeps = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        n_sleeps += line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(n_sleeps)
}

/// How many threads this process has.
///
/// # Errors
/// What the system says.
pub fn n_threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// How many descriptors this process has open, the one for counting them among them.
///
/// # Errors
/// What the system says.
pub fn n_descriptors() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// User and system time; the name before them may have blanks and brackets in it.
fn ticks_of(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let user: u64 = fields.get(11)?.parse().ok()?;
    let system: u64 = fields.get(12)?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(ticks_of("7 (x) S"), None);
    }

    #[test]
    fn threads_and_descriptors_are_counted() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        // Other tests have some as well.
        assert!(n_threads().unwrap() >= 2);
        assert!(n_descriptors().unwrap() >= 50);
        drop((files, end));
        thread.join().unwrap().unwrap_err();
    }
}
