//! One server.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nix::sys::signal::Signal;

use super::{Client, Reply};
use crate::{Folder, Process, free_port, wait_until, wall::Wall};

/// A server in a folder of its own; killed, and its folder removed, when it is dropped.
#[derive(Debug)]
pub struct Server {
    // Dropped before the folder that it writes to.
    process: Process,
    folder: Folder,
    ports: Ports,
    args: Vec<String>,
    /// The words after `AUTH`; empty if anybody may come in.
    login: Vec<String>,
    /// What it takes for the time, unless it goes by the machine's clock.
    wall: Option<Wall>,
}

/// The ports of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Where it is spoken to.
    pub(super) main: u16,
    /// For what else it listens for: encrypted connections, or its fellows in a cluster.
    pub(super) second: u16,
}

impl Server {
    /// Starts one that keeps nothing on disk; it answers when this returns.
    ///
    /// # Errors
    /// What the system says; with the server's own words if it does not start.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts one with more arguments, such as `["--appendonly", "yes"]`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(args: &[&str]) -> io::Result<Self> {
        Self::launch(Folder::new()?, &[], |folder, ports| {
            let mut all = usual_args(folder, ports);
            all.extend(args.iter().map(ToString::to_string));
            Ok(all)
        })
    }

    /// Starts one whose wall clock can be set ahead while it runs ([`Server::set_clock_ahead`]).
    ///
    /// # Errors
    /// As [`Server::start`]; that there is no C compiler.
    pub fn start_with_own_clock() -> io::Result<Self> {
        let folder = Folder::new()?;
        let wall = Wall::new(folder.path())?;
        Self::launch_by(folder, &[], Some(wall), |folder, ports| Ok(usual_args(folder, ports)))
    }

    /// Sets its wall clock so far ahead of the machine's, at once; zero sets it right again.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::Unsupported`] if it has no clock of its own.
    pub fn set_clock_ahead(&self, ahead: Duration) -> io::Result<()> {
        self.wall.as_ref().ok_or(io::ErrorKind::Unsupported)?.set_ahead(ahead)
    }

    /// Starts one with the arguments that `args` finds for its folder and ports.
    pub(super) fn launch(
        folder: Folder,
        login: &[&str],
        args: impl Fn(&Folder, Ports) -> io::Result<Vec<String>>,
    ) -> io::Result<Self> {
        Self::launch_by(folder, login, None, args)
    }

    fn launch_by(
        folder: Folder,
        login: &[&str],
        wall: Option<Wall>,
        args: impl Fn(&Folder, Ports) -> io::Result<Vec<String>>,
    ) -> io::Result<Self> {
        const N_TRIES: usize = 5;
        let login: Vec<_> = login.iter().map(ToString::to_string).collect();
        let mut n_tries = 0;
        loop {
            let ports = Ports { main: free_port()?, second: free_port()? };
            let args = args(&folder, ports)?;
            n_tries += 1;
            match run(&folder, ports, &args, &login, wall.as_ref()) {
                Ok(process) => return Ok(Self { process, folder, ports, args, login, wall }),
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && n_tries < N_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is spoken to.
    pub fn port(&self) -> u16 {
        self.ports.main
    }

    pub(super) fn second_port(&self) -> u16 {
        self.ports.second
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Its URL, without a login.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether its process is there and not stopped.
    pub fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !"TZX".contains(state))
    }

    /// Its folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Kills it as `kill -9` does and waits until it is gone. Once more does nothing.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Kills it if it runs and starts it again on the same ports, with what it has on disk: nothing
    /// unless it was started with a file or told to `SAVE`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        self.process = run(&self.folder, self.ports, &self.args, &self.login, self.wall.as_ref())?;
        Ok(())
    }

    /// As [`Server::restart`], but what it has on disk is removed.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn restart_empty(&mut self) -> io::Result<()> {
        self.kill()?;
        fs::remove_dir_all(data_folder(&self.folder))?;
        self.restart()
    }

    /// Stops its process as `SIGSTOP` does: connections stay open and nothing answers.
    ///
    /// # Errors
    /// What the system says.
    pub fn stop(&self) -> io::Result<()> {
        self.process.signal(Signal::SIGSTOP)
    }

    /// Lets a stopped process go on.
    ///
    /// # Errors
    /// What the system says.
    pub fn go_on(&self) -> io::Result<()> {
        self.process.signal(Signal::SIGCONT)
    }

    /// A new connection, logged in where that is needed.
    ///
    /// # Errors
    /// What the system says.
    pub fn client(&self) -> io::Result<Client> {
        connect(self.ports, &self.login)
    }

    /// Runs one command on a new connection. A refusal is an answer.
    ///
    /// # Errors
    /// What the system says.
    pub fn command<Word: AsRef<[u8]>>(&self, words: &[Word]) -> io::Result<Reply> {
        self.client()?.command(words)
    }

    /// Changes a setting while it runs.
    ///
    /// # Errors
    /// What the system says, or the server's refusal.
    pub fn config_set(&self, name: &str, value: &str) -> io::Result<()> {
        self.command(&["CONFIG", "SET", name, value])?.not_an_error().map(drop)
    }

    /// One line of what it tells about itself, such as `role` or `master_link_status`.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if there is no such line.
    pub fn info(&self, name: &str) -> io::Result<String> {
        let text = self.command(&["INFO", "everything"])?.not_an_error()?.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::to_owned).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name))
    }

    /// What changes with every start.
    ///
    /// # Errors
    /// What the system says.
    pub fn run_id(&self) -> io::Result<String> {
        self.info("run_id")
    }

    /// How often it has run a command of this name, inside scripts too, since it was started or its
    /// counts were reset (`CONFIG RESETSTAT`).
    ///
    /// # Errors
    /// What the system says.
    pub fn n_calls(&self, command: &str) -> io::Result<u64> {
        let stats = match self.info(&format!("cmdstat_{}", command.to_lowercase())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            stats => stats?,
        };
        let calls = stats.split(',').find_map(|field| field.strip_prefix("calls="));
        calls.and_then(|calls| calls.parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// A connection on which every command comes along that the server runs from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn monitor(&self) -> io::Result<Client> {
        let mut client = self.client()?;
        client.command(&["MONITOR"])?.not_an_error()?;
        Ok(client)
    }
}

/// Where a server keeps what it keeps on disk.
pub(super) fn data_folder(folder: &Folder) -> PathBuf {
    folder.join("data")
}

/// A replica whose first data come without a file gets nothing more for up to a second after it
/// says that it is up to date.
pub(super) const SYNC_BY_FILE: [&str; 2] = ["--repl-diskless-sync", "no"];

/// What every server needs: it keeps nothing on disk and is seen on this machine only.
pub(super) fn usual_args(folder: &Folder, ports: Ports) -> Vec<String> {
    let port = ports.main.to_string();
    let data = data_folder(folder).display().to_string();
    ["--port", &port, "--bind", "127.0.0.1", "--dir", &data, "--save", "", "--appendonly", "no"]
        .map(str::to_owned)
        .to_vec()
}

/// Starts the process and waits until it answers.
fn run(
    folder: &Folder,
    ports: Ports,
    args: &[String],
    login: &[String],
    wall: Option<&Wall>,
) -> io::Result<Process> {
    fs::create_dir_all(data_folder(folder))?;
    let log = folder.join("log");
    let mut command = Command::new("redis-server");
    command.args(args);
    if let Some(wall) = wall {
        wall.give_to(&mut command);
    }
    let mut process = Process::start_with_log(command, &log)?;
    // A stranger may answer on the port that ours did not get.
    let own_number = format!("process_id:{}\r\n", process.id());
    wait_until("a Redis server answers", || {
        if process.ended()?.is_some() {
            return Ok(true);
        }
        let mut client = connect(ports, login)?;
        // Refused while it reads its files, unlike the question that follows.
        client.command(&["PING"])?.not_an_error()?;
        let about = client.command(&["INFO", "server"])?.not_an_error()?;
        Ok(about.text().contains(&own_number))
    })
    .map_err(|error| not_started(&log, &error.to_string()))?;
    match process.ended()? {
        None => Ok(process),
        Some(status) => Err(not_started(&log, &status.to_string())),
    }
}

fn not_started(log: &Path, why: &str) -> io::Error {
    let log = fs::read_to_string(log).unwrap_or_default();
    let kind = match log.contains("Address already in use") {
        true => io::ErrorKind::AddrInUse,
        false => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("redis-server did not start: {why}\n{log}"))
}

fn connect(ports: Ports, login: &[String]) -> io::Result<Client> {
    let mut client = Client::connect(ports.main)?;
    if !login.is_empty() {
        client.log_in(login)?;
    }
    Ok(client)
}
