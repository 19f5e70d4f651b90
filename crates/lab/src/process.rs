//! Child processes that are spoken to line by line, and ended by their id when dropped.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::with_default_signals;

/// A child process; killed, if it still runs, when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// What it has said beyond the last full line.
    heard: Vec<u8>,
}

impl Process {
    /// Starts it, with its input and output in our hands.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(mut command: Command) -> io::Result<Self> {
        with_default_signals(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn()?;
        Ok(Self { child, heard: Vec::new() })
    }

    /// Starts it with nothing to read; what it says goes to a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn start_with_log(mut command: Command, log: &Path) -> io::Result<Self> {
        let log = File::create(log)?;
        with_default_signals(&mut command).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().display();
            io::Error::new(error.kind(), format!("{program}: {error}"))
        })?;
        Ok(Self { child, heard: Vec::new() })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// What the system says.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let id = i32::try_from(self.id()).map_err(io::Error::other)?;
        // It has not been waited for, so the number is still its own.
        Ok(kill(Pid::from_raw(id), signal)?)
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Tells it one line.
    ///
    /// # Errors
    /// What the system says, most of all that it is gone.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let input = self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(format!("{line}\n").as_bytes())
    }

    /// Ends its input.
    pub fn say_no_more(&mut self) {
        self.child.stdin = None;
    }

    /// The next line it says.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `limit`, [`io::ErrorKind::UnexpectedEof`] if none comes.
    pub fn hear(&mut self, limit: Duration) -> io::Result<String> {
        let give_up_at = Instant::now() + limit;
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let output = self.child.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            wait_for_bytes(&*output, give_up_at)?;
            let mut bytes = [0; 512];
            match output.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n_bytes => self.heard.extend_from_slice(&bytes[..n_bytes]),
            }
        }
    }

    /// Whether it has come to its end, and how.
    ///
    /// # Errors
    /// What the system says.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `limit`.
    pub fn wait(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        let give_up_at = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > give_up_at {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it is gone already, which is what we want.
        let _ = self.kill();
    }
}

fn wait_for_bytes(output: impl AsFd, give_up_at: Instant) -> io::Result<()> {
    loop {
        let left = give_up_at.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_process_is_spoken_to_line_by_line() {
        let mut cat = Process::start(Command::new("cat")).unwrap();
        cat.say("one").unwrap();
        cat.say("two").unwrap();
        assert_eq!(cat.hear(LONG).unwrap(), "one");
        assert_eq!(cat.hear(LONG).unwrap(), "two");
        let silence = cat.hear(Duration::from_millis(10)).unwrap_err();
        assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
        cat.say_no_more();
        assert_eq!(cat.hear(LONG).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(cat.wait(LONG).unwrap().success());
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = Process::start(Command::new("cat")).unwrap();
        let entry = format!("/proc/{}", process.id());
        assert!(std::path::Path::new(&entry).exists());
        drop(process);
        assert!(!std::path::Path::new(&entry).exists());
    }
}
