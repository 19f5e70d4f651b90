//! The second process: the test program once more, and how the first one talks to it.
//!
//! One request per line on its standard input, one answer per line on its standard output. The
//! test framework prints there too, so answers begin with a mark.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    Error, ErrorKind, Guard, Key, Locks, Result, blocking::block_on, conformance::Neighbour,
    event::Event,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const URL: &str = "LOCKKEEPER_NEIGHBOUR_URL";
const MARK: &str = "@ ";
/// How long an answer may take: only ever a stop against hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// A running second process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    pub(crate) fn start(url: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["--exact", "neighbour::body", "--ignored", "--nocapture"])
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The framework may have begun the line.
                if let Some((_, answer)) = line.split_once(MARK) {
                    // Nobody listens any more: the test is over.
                    let _ = tell.send(answer.to_owned());
                }
            }
        });
        Self { child, requests, answers }
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        writeln!(self.requests, "{request}").map_err(|error| trouble(&error.to_string()))?;
        self.answer()
    }

    fn answer(&self) -> Result<String> {
        let answer = self.answers.recv_timeout(LIMIT);
        let answer = answer.map_err(|error| trouble(&error.to_string()))?;
        match answer.strip_prefix("error ") {
            None => Ok(answer),
            Some(error) => Err(trouble(error)),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).map_err(|error| trouble(&error.to_string()))
    }
}

fn trouble(what: &str) -> Error {
    Error::new(ErrorKind::Other, format!("the second process: {what}"))
}

fn request(word: &str, key: &Key, ttl: Duration) -> String {
    // Whoever asks uses keys without spaces.
    format!("{word} {} {}", ttl.as_millis(), key.as_str())
}

#[async_trait]
impl Neighbour for Process {
    async fn try_hold(&mut self, key: &Key, ttl: Duration) -> Result<Option<u64>> {
        Ok(self.ask(&request("try", key, ttl))?.parse().ok())
    }

    async fn wait_in_line(&mut self, key: &Key, ttl: Duration) -> Result<()> {
        match self.ask(&request("wait", key, ttl))?.as_str() {
            "waiting" => Ok(()),
            other => Err(trouble(&format!("it was to wait, but answered {other:?}"))),
        }
    }

    async fn served(&mut self) -> Result<u64> {
        let answer = self.answer()?;
        answer
            .parse()
            .map_err(|_| trouble(&format!("it was to be served, but answered {answer:?}")))
    }

    async fn is_held(&mut self) -> Result<bool> {
        Ok(self.ask("held")? == "true")
    }

    async fn release(&mut self) -> Result<()> {
        self.ask("release").map(drop)
    }

    async fn kill(&mut self) -> Result<()> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| trouble(&error.to_string()))
    }

    async fn stop(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    async fn go_on(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed already, or killed now: either way it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "not a test: the body of the second process"]
fn body() {
    let Ok(url) = std::env::var(URL) else { return };
    block_on(serve(&url)).unwrap();
}

async fn serve(url: &str) -> Result<()> {
    let locks = Locks::builder().url(url).label("neighbour").observe(tell_waiting);
    let locks = locks.connect().await?;
    let mut guard = None;
    for line in io::stdin().lines() {
        let line = line.unwrap();
        match obey(&locks, &line, &mut guard).await {
            Ok(answer) => tell(&answer),
            Err(error) => tell(&format!("error {error:?}")),
        }
    }
    Ok(())
}

async fn obey(locks: &Locks, line: &str, guard: &mut Option<Guard>) -> Result<String> {
    let mut words = line.splitn(3, ' ');
    let word = words.next().unwrap_or_default();
    let ttl = words.next().and_then(|ttl| ttl.parse().ok()).unwrap_or_default();
    let lock = locks.lock(words.next().unwrap_or_default()).ttl(Duration::from_millis(ttl));
    match word {
        "try" => *guard = lock.try_acquire().await?,
        "wait" => *guard = Some(lock.acquire().await?),
        "held" => return Ok(guard.as_ref().is_some_and(Guard::is_held).to_string()),
        "release" => {
            if let Some(guard) = guard.take() {
                guard.release().await?;
            }
            return Ok("released".into());
        }
        other => return Err(trouble(&format!("no such request: {other:?}"))),
    }
    Ok(guard.as_ref().map_or("busy".into(), |guard| guard.fence().to_string()))
}

fn tell(answer: &str) {
    let mut output = io::stdout().lock();
    writeln!(output, "{MARK}{answer}").and_then(|()| output.flush()).unwrap();
}

fn tell_waiting(event: &Event<'_>) {
    if matches!(event, Event::Waiting { .. }) {
        tell("waiting");
    }
}
