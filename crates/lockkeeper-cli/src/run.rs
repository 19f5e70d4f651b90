//! `run` and `try`: take the lock, run the command, give the lock back.

use std::{
    borrow::Cow,
    ffi::OsStr,
    io::IsTerminal,
    mem::ManuallyDrop,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use lockkeeper::{DEFAULT_CONNECT_WITHIN, ErrorKind, Guard, Lock, Locks};

use crate::{
    args::Hold,
    embedded,
    exit::{Exit, Failure},
    message,
    post::Post,
};

/// How long an engine has at least, also after a limit, to take back what was asked of it.
const TO_SETTLE: Duration = Duration::from_millis(500);

/// How long to stand in line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Waits,
    Within(Duration),
    Tries,
}

impl Patience {
    /// How long the engine may take to open: what is part of a wait with a limit ends with the limit.
    fn to_connect(self) -> Duration {
        match self {
            // One attempt has no time of its own, and there is none without a connection.
            Self::Waits | Self::Tries | Self::Within(Duration::ZERO) => DEFAULT_CONNECT_WITHIN,
            Self::Within(limit) => limit.min(DEFAULT_CONNECT_WITHIN),
        }
    }

    /// What is left of a limit; one attempt has none.
    fn rest(self, begun_at: Instant) -> Option<Duration> {
        match self {
            Self::Waits | Self::Tries | Self::Within(Duration::ZERO) => None,
            Self::Within(limit) => Some(limit.saturating_sub(begun_at.elapsed())),
        }
    }
}

/// How the command that ran under the lock came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this status.
    Ended(u8),
    /// The same after the lock was lost, which the user was told and did not mind.
    EndedAfterLoss(u8),
    /// It never ran; this is the error number.
    NotStarted(i32),
    /// It was stopped, because the lock was lost.
    Lost,
    /// It was stopped, because what looked after it is gone.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no warden"))]
    WardenGone(Rest),
}

/// What became of the command's descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no warden"))]
pub(crate) enum Rest {
    Ended,
    /// Nobody knows them any more.
    MayRun,
}

/// Runs the command of `hold` under its lock and says how to exit.
pub(crate) fn run(url: Option<&str>, hold: &Hold, patience: Patience) -> Result<Exit, Failure> {
    // First of all: the warden must be forked before the library starts a thread.
    let post = Post::set_up(url, hold)?;
    let begun_at = Instant::now();
    // Our own loop attends to the lock while the command runs: a thread less to start.
    let mut locks = Locks::builder().attended().connect_within(patience.to_connect());
    if let Some(url) = url {
        locks = locks.url(url);
    }
    let locks = post.wait_for(locks.connect())?;
    let locks = locks.map_err(|error| embedded::not_opened(url, &error))?;
    // The process is about to end: to send its threads home first would only cost time.
    let locks = ManuallyDrop::new(locks);
    let mut lock = locks.lock(&hold.key);
    if let Some(ttl) = hold.ttl {
        lock = lock.ttl(ttl);
    }
    lock = lock.label(&label_of(hold));
    if hold.barging {
        lock = lock.barging();
    }
    let guard =
        take(&post, &locks, &lock, (url, hold), (patience, begun_at)).or_else(|failure| {
            // An engine that was asked may grant it yet, or keep our place in line, and we are about to end.
            // What is not through in time is lost with us: that is what the lease is for.
            let rest = patience.rest(begun_at).map(|rest| rest.max(TO_SETTLE));
            post.wait_at_most(rest, locks.settle())?;
            Err(failure)
        })?;
    // Nothing of the command may run on when the guard is dropped.
    let ending = post.run(&locks, &guard, hold).inspect_err(|_| post.dismiss())?;
    if ending == Ending::WardenGone(Rest::MayRun) {
        // Not given back: the kernel keeps it for those who inherited it, and a lease runs out.
        let _kept = ManuallyDrop::new(guard);
        return conclude(ending, hold, Ok(()));
    }
    // A signal now changes nothing any more: the command has ended, and so do we. But the lock must be given
    // back first: processes that the command left behind have inherited it, and would keep it.
    let released = post.see_through(guard.release())?;
    conclude(ending, hold, released)
}

/// What others see: the given label, or the name of the command without its folder.
fn label_of(hold: &Hold) -> Cow<'_, str> {
    match (&hold.label, hold.command.first()) {
        (Some(label), _) => label.into(),
        (None, Some(name)) => Path::new(name).file_name().unwrap_or(name).to_string_lossy(),
        (None, None) => "".into(),
    }
}

fn take(
    post: &Post,
    locks: &Locks,
    lock: &Lock,
    (url, hold): (Option<&str>, &Hold),
    (patience, begun_at): (Patience, Instant),
) -> Result<Guard, Failure> {
    if let Patience::Tries = patience {
        return match post.wait_for(lock.try_acquire())?? {
            Some(guard) => Ok(guard),
            None => {
                let (key, place) = (&hold.key, locks.place());
                let busy =
                    format!("{key:?} at {place} is busy{}", holder(post, locks, hold, None)?);
                Err(Failure::new(Exit::Busy, busy))
            }
        };
    }
    post.check_outer_runs(locks, url, &hold.key, patience.rest(begun_at))?;
    // Somebody is watching: tell what we wait for.
    if std::io::stderr().is_terminal() {
        let (key, place) = (&hold.key, locks.place());
        match post.wait_at_most(patience.rest(begun_at), lock.try_acquire())?.transpose()? {
            Some(Some(guard)) => return Ok(guard),
            Some(None) => {
                let holder = holder(post, locks, hold, patience.rest(begun_at))?;
                message::say(&format!("waiting for {key:?} at {place}{holder}"));
            }
            None => return Err(silent(key, &place)),
        }
    }
    Ok(match patience {
        Patience::Within(limit) => post
            .wait_in_line(locks, || lock.acquire_within(limit.saturating_sub(begun_at.elapsed())))?
            .map_err(|error| match error.kind() {
                // The library knows only the time that was left.
                ErrorKind::TimedOut => still_busy(&hold.key, &locks.place(), limit),
                _ => error.into(),
            })?,
        _ => post.wait_in_line(locks, || lock.acquire())??,
    })
}

/// The limit is over, and the engine has not answered.
pub(crate) fn silent(key: &str, place: &str) -> Failure {
    let message = format!("cannot take {key:?} at {place}: no answer in the time there was");
    Failure::new(Exit::Unreachable, message)
}

fn still_busy(key: &str, place: &str, limit: Duration) -> Failure {
    let busy = match limit {
        Duration::ZERO => "is busy".into(),
        _ => format!("was busy for {}", humantime::format_duration(limit)),
    };
    Failure::new(Exit::TimedOut, format!("{key:?} at {place} {busy}"))
}

/// `, held by …`, if that can be found out.
fn holder(
    post: &Post,
    locks: &Locks,
    hold: &Hold,
    limit: Option<Duration>,
) -> Result<String, Failure> {
    // An engine that cannot tell is no reason to fail: this is a courtesy.
    let who = post.wait_at_most(limit, locks.who(&hold.key))?;
    let holder = who.and_then(|who| who.ok()?.holder);
    Ok(holder.map_or(String::new(), |holder| format!(", {}", message::held_by(&holder))))
}

/// The variable that tells the command its fence.
pub(crate) const FENCE: &str = "LOCKKEEPER_FENCE";

/// The command line of `hold`, and what its environment says about the lock; only the fence is
/// still missing.
pub(crate) fn child_of(hold: &Hold) -> Command {
    let (name, arguments) = match hold.command.split_first() {
        Some((name, arguments)) => (name.as_os_str(), arguments),
        None => (OsStr::new(""), &[][..]),
    };
    let mut child = Command::new(name);
    child.args(arguments);
    child.env("LOCKKEEPER_KEY", &hold.key).env_remove(FENCE);
    hold.passed_on.put_into(&mut child);
    child
}

fn conclude(
    ending: Ending,
    hold: &Hold,
    released: lockkeeper::Result<()>,
) -> Result<Exit, Failure> {
    let (key, name) = (&hold.key, hold.command.first().map(|name| name.to_string_lossy()));
    let name = name.unwrap_or_default();
    match ending {
        Ending::Ended(status) => match released {
            Ok(()) => Ok(Exit::Child(status)),
            Err(error) if error.kind() == ErrorKind::Lost => {
                let message = format!("{key:?} was lost before the command ended with {status}");
                if hold.on_loss.stops() {
                    return Err(Failure::new(Exit::Lost, message));
                }
                message::say(&message);
                Ok(Exit::Child(status))
            }
            Err(error) => {
                // The work is done; that the lock stays until its lease ends is worth a word.
                message::say(&message::chain(&error));
                Ok(Exit::Child(status))
            }
        },
        Ending::EndedAfterLoss(status) => {
            // That the lock is lost is no news.
            if let Err(error) = released
                && error.kind() != ErrorKind::Lost
            {
                message::say(&message::chain(&error));
            }
            Ok(Exit::Child(status))
        }
        Ending::NotStarted(number) => {
            let error = std::io::Error::from_raw_os_error(number);
            let exit = match error.kind() {
                std::io::ErrorKind::NotFound => Exit::NotFound,
                _ => Exit::CannotExecute,
            };
            Err(Failure::new(exit, format!("cannot run {name:?}: {error}")))
        }
        Ending::Lost => Err(Failure::new(Exit::Lost, format!("stopped {name:?}: {key:?} is lost"))),
        Ending::WardenGone(rest) => {
            let rest = match rest {
                Rest::Ended => "",
                Rest::MayRun => "; if it had children, look whether they still run",
            };
            let message = format!("stopped {name:?}: its warden was killed{rest}");
            Err(Failure::new(Exit::Failed, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting_ends_with_the_limit_and_in_any_case_in_time() {
        let short = Duration::from_millis(300);
        assert_eq!(Patience::Within(short).to_connect(), short);
        for other in [Duration::MAX, Duration::ZERO].map(Patience::Within) {
            assert_eq!(other.to_connect(), DEFAULT_CONNECT_WITHIN);
        }
    }
}
