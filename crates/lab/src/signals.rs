//! A process starts as if from a shell at a terminal, whatever started us.
#![allow(unsafe_code, reason = "between fork and exec there is no safe form")]

use std::{io, os::unix::process::CommandExt, process::Command};

use nix::{
    errno::Errno,
    sys::signal::{SigHandler, SigSet, Signal, signal},
};

/// Has the command start with no signal ignored and none blocked.
///
/// Both are inherited, and `nohup`, background jobs of a script and many runners of tests ignore
/// signals: then a process that should end by SIGINT would not.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only system calls are made; nothing allocates or takes a lock.
    unsafe { command.pre_exec(reset) }
}

fn reset() -> io::Result<()> {
    for each in Signal::iterator() {
        // SAFETY: the default action runs no code.
        match unsafe { signal(each, SigHandler::SigDfl) } {
            // SIGKILL and SIGSTOP have no other.
            Ok(_) | Err(Errno::EINVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(SigSet::empty().thread_set_mask()?)
}

#[cfg(test)]
mod tests {
    use std::{env, time::Duration};

    use super::*;
    use crate::Process;

    const IGNORES: &str = "LAB_IGNORES_SIGNALS";
    const LONG: Duration = Duration::from_secs(30);

    /// SIGHUP, SIGINT, SIGQUIT, SIGUSR1 and SIGTERM, as the kernel shows them.
    const MADE_IGNORED: u64 = 0x4207;

    fn look() -> Command {
        let mut look = Command::new("grep");
        look.args(["-E", "^Sig(Blk|Ign):", "/proc/self/status"]);
        look
    }

    /// The signals of this line, without those above 31: they are the C library's own.
    fn signals_of(seen: Vec<u8>, what: &str) -> u64 {
        let seen = String::from_utf8(seen).unwrap();
        let numbers = seen.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        u64::from_str_radix(numbers.trim_start_matches(":\t"), 16).unwrap() & 0x7fff_ffff
    }

    #[test]
    fn a_process_ignores_nothing_though_we_do() {
        if env::var_os(IGNORES).is_none() {
            // Once more, in a process that ignores signals.
            let mut again = Command::new("sh");
            again.args(["-c", "trap '' HUP INT QUIT TERM USR1; exec \"$0\" \"$@\""]);
            again.arg(env::current_exe().unwrap()).env(IGNORES, "");
            again.args(["--exact", "signals::tests::a_process_ignores_nothing_though_we_do"]);
            let output = again.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        assert!(
            signals_of(look().output().unwrap().stdout, "SigIgn") & MADE_IGNORED == MADE_IGNORED
        );
        let mut process = Process::start(look()).unwrap();
        let seen = [process.hear(LONG).unwrap(), process.hear(LONG).unwrap()].join("\n");
        for what in ["SigBlk", "SigIgn"] {
            assert_eq!(signals_of(seen.clone().into(), what), 0, "{seen}");
        }
    }
}
