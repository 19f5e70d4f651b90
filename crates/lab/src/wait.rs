//! Waiting for something to come true.

use std::{
    io,
    time::{Duration, Instant},
};

/// Asks again and again until the answer is yes.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] after a minute, with `what` and the last error of `is_true` in the
/// message: while a server starts or changes its role, errors are part of the wait.
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    const LIMIT: Duration = Duration::from_secs(60);
    let give_up_at = Instant::now() + LIMIT;
    loop {
        let answer = is_true();
        if let Ok(true) = answer {
            return Ok(());
        }
        if Instant::now() > give_up_at {
            let why = answer.err().map_or_else(String::new, |error| format!(": {error}"));
            let message = format!("{what}: not within {LIMIT:?}{why}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
