//! What a server answers, in the second version of its protocol.

use std::{
    fmt,
    io::{self, BufRead},
};

/// An answer.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// No value, or no list.
    Nil,
    /// A number.
    Int(i64),
    /// A text of any bytes, or a status such as `OK`.
    Text(Vec<u8>),
    /// Several answers in one.
    List(Vec<Reply>),
    /// A refusal.
    Error(String),
}

impl Reply {
    /// Whether it is the status `OK`.
    pub fn is_ok(&self) -> bool {
        *self == Self::from("OK")
    }

    /// The number, or the number that the text spells.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            Self::Nil | Self::List(_) | Self::Error(_) => None,
        }
    }

    /// The text or the refusal; empty for anything else.
    pub fn text(&self) -> String {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Error(message) => message.clone(),
            Self::Nil | Self::Int(_) | Self::List(_) => String::new(),
        }
    }

    /// The bytes of the text; none for anything else.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            Self::Nil | Self::Int(_) | Self::List(_) | Self::Error(_) => &[],
        }
    }

    /// The answers in a list; none for anything else.
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(replies) => replies,
            Self::Nil | Self::Int(_) | Self::Text(_) | Self::Error(_) => &[],
        }
    }

    /// Itself, unless it is a refusal.
    ///
    /// # Errors
    /// The refusal.
    pub fn not_an_error(self) -> io::Result<Self> {
        match self {
            Self::Error(message) => Err(io::Error::other(message)),
            reply => Ok(reply),
        }
    }

    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let line = read_line(from)?;
        let (kind, rest) = line.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
        match kind {
            "+" => Ok(Self::from(rest)),
            "-" => Ok(Self::Error(rest.to_owned())),
            ":" => Ok(Self::Int(number(rest)?)),
            "$" => match usize::try_from(number(rest)?) {
                Ok(length) => read_text(from, length),
                Err(_) => Ok(Self::Nil),
            },
            "*" => match usize::try_from(number(rest)?) {
                Ok(length) => {
                    let replies: io::Result<_> = (0..length).map(|_| Self::read(from)).collect();
                    replies.map(Self::List)
                }
                Err(_) => Ok(Self::Nil),
            },
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, line)),
        }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("Nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::List(replies) => f.debug_list().entries(replies).finish(),
            Self::Error(message) => write!(f, "Error({message})"),
        }
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    let text = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn read_text(from: &mut impl BufRead, length: usize) -> io::Result<Reply> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(Reply::Text(bytes))
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_is_read() {
        let mut bytes: &[u8] =
            b"+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n*2\r\n:1\r\n*0\r\n";
        let replies: Vec<_> = (0..7).map(|_| Reply::read(&mut bytes).unwrap()).collect();
        let list = Reply::List(vec![Reply::Int(1), Reply::List(vec![])]);
        assert!(replies[0].is_ok());
        assert_eq!(replies[1], Reply::Error("ERR no".into()));
        assert_eq!(replies[2..], [Reply::Int(-7), "a\r\nb".into(), Reply::Nil, Reply::Nil, list]);
        assert_eq!(Reply::read(&mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
