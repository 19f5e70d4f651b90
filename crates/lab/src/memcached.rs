//! A real Memcached server.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{Certificates, Folder, Process, Program, free_port, wait_until};

/// What this lab starts.
pub const PROGRAMS: &[Program] = &[("memcached", "memcached")];

/// How long a server may take to answer: only ever a stop against hanging.
const LIMIT: Duration = Duration::from_secs(60);
/// A command that does nothing, and its answer.
const NOTHING: (&[u8], &[u8]) = (b"mn\r\n", b"MN\r\n");

/// A server on the loopback address; killed when it is dropped.
#[derive(Debug)]
pub struct Memcached {
    // Dropped before the folder that it writes to.
    process: Process,
    folder: Folder,
    port: u16,
    args: Vec<String>,
}

impl Memcached {
    /// Starts one; it answers when this returns.
    ///
    /// # Errors
    /// What the system says; with the server's own words if it does not start.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts one with more arguments, such as `["-m", "1"]` for little memory.
    ///
    /// # Errors
    /// As [`Memcached::start`].
    pub fn start_with(args: &[&str]) -> io::Result<Self> {
        const N_TRIES: usize = 5;
        let folder = Folder::new()?;
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        let mut n_tries = 0;
        loop {
            let port = free_port()?;
            n_tries += 1;
            match run(&folder, port, &args) {
                Ok(process) => return Ok(Self { process, folder, port, args }),
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && n_tries < N_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts one that is spoken to through TLS too, on a second port, and the URL of that. It shows the
    /// server's certificate.
    ///
    /// # Errors
    /// As [`Memcached::start`].
    pub fn start_secure(certificates: &Certificates) -> io::Result<(Self, String)> {
        let (chain, key) = (certificates.server.display(), certificates.server_key.display());
        let options = format!("ssl_chain_cert={chain},ssl_key={key}");
        let second = format!("127.0.0.1:{}", free_port()?);
        let server = Self::start_with(&["-Z", "-o", &options, "-l", &second])?;
        Ok((server, format!("memcacheds://{second}")))
    }

    /// Where it is spoken to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("memcached://{}", self.address())
    }

    /// Kills it as `kill -9` does and waits until it is gone. Once more does nothing.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Kills it if it runs and starts it again on the same port, with nothing in it.
    ///
    /// # Errors
    /// As [`Memcached::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        self.process = run(&self.folder, self.port, &self.args)?;
        Ok(())
    }

    /// Stops it in the middle of whatever it does; connections are taken by the kernel all the same.
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

    /// Sends commands as they are, with their `\r\n`, on a new connection; gives the answers as they are.
    ///
    /// # Errors
    /// What the system says.
    pub fn command(&self, commands: impl AsRef<[u8]>) -> io::Result<String> {
        command(self.port, commands.as_ref())
    }
}

fn command(port: u16, commands: &[u8]) -> io::Result<String> {
    let (nothing, end) = NOTHING;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    // From a thread of its own: the server stops reading while nobody takes its answers.
    let mut writing = stream.try_clone()?;
    let all = [commands, nothing].concat();
    let writing = std::thread::spawn(move || writing.write_all(&all));
    let (mut answers, mut bytes) = (Vec::new(), [0; 4096]);
    while !answers.ends_with(end) {
        match stream.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n_bytes => answers.extend_from_slice(&bytes[..n_bytes]),
        }
    }
    writing.join().map_err(|_| io::Error::other("the writing thread panicked"))??;
    answers.truncate(answers.len() - end.len());
    Ok(String::from_utf8_lossy(&answers).into_owned())
}

/// Starts the process and waits until it answers.
fn run(folder: &Folder, port: u16, args: &[String]) -> io::Result<Process> {
    let log = folder.join("log");
    let mut command = Command::new("memcached");
    // Without TLS, also where another port has it: this is the port that we ask.
    let notls = if args.iter().any(|arg| arg == "-Z") { "notls:" } else { "" };
    command.args(["-U", "0", "-l", &format!("{notls}127.0.0.1:{port}")]);
    if nix::unistd::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    command.args(args);
    let mut process = Process::start_with_log(command, &log)?;
    // A stranger may answer on the port that ours did not get.
    let own_number = format!("STAT pid {}\r\n", process.id());
    let started = wait_until("a Memcached server answers", || {
        Ok(process.ended()?.is_some() || self::command(port, b"stats\r\n")?.contains(&own_number))
    });
    let why = match (started, process.ended()?) {
        (Ok(()), None) => return Ok(process),
        (Ok(()), Some(status)) => status.to_string(),
        (Err(error), _) => error.to_string(),
    };
    let log = fs::read_to_string(&log).unwrap_or_default();
    let kind = match log.contains("Address already in use") {
        true => io::ErrorKind::AddrInUse,
        false => io::ErrorKind::Other,
    };
    Err(io::Error::new(kind, format!("memcached did not start: {why}\n{log}")))
}
