//! One connection to a server, one command at a time.

use std::{
    io::{self, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use super::Reply;

/// Longer than any answer takes, and shorter than the patience of whoever runs the tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server on this machine.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Says who we are; without a name the password is the server's.
    ///
    /// # Errors
    /// What the system says, or the server's refusal.
    pub fn log_in(&mut self, login: &[String]) -> io::Result<()> {
        let mut words = vec!["AUTH"];
        words.extend(login.iter().map(String::as_str));
        self.command(&words)?.not_an_error().map(drop)
    }

    /// Sends a command and takes the answer to it. A refusal is an answer.
    ///
    /// # Errors
    /// What the system says.
    pub fn command<Word: AsRef<[u8]>>(&mut self, words: &[Word]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command only.
    ///
    /// # Errors
    /// What the system says.
    pub fn send<Word: AsRef<[u8]>>(&mut self, words: &[Word]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.write_all(&bytes)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Waits this long for an answer, in place of 20 seconds.
    ///
    /// # Errors
    /// What the system says.
    pub fn be_patient_for(&self, limit: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(limit))
    }

    /// Takes all bytes up to the end of the connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.stream.read_to_end(bytes)
    }

    /// Takes the next answer, or the next message after `SUBSCRIBE` or `MONITOR`.
    ///
    /// # Errors
    /// What the system says; nothing in time is an error too.
    pub fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }
}
