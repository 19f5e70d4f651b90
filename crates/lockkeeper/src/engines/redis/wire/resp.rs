//! The protocol: commands as bytes, bytes as replies (RESP3, and RESP2 where a reply looks the same).

use super::digits::{Digits, leading_number};
use crate::engine::error::{Error, ErrorKind, Result};

/// A reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Value {
    #[default]
    Nil,
    /// `+OK` or `+PONG`: success without a value.
    Okay,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Value>),
    /// An error as the server wrote it: a code in capitals, then a sentence.
    Error(String),
}

/// One message of the protocol, as the server sends it.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame<'a> {
    Reply(Value),
    /// A message on a channel that we listen to.
    Message {
        channel: &'a [u8],
        text: &'a [u8],
    },
    /// Any other push, such as the confirmation of a subscription.
    Push(Vec<Value>),
}

/// No reply to our commands is larger. A peer that announces more is not Redis, or not trustworthy.
const LONGEST_TEXT: usize = 64 << 20;
const LONGEST_LIST: usize = 1 << 20;
const DEEPEST: usize = 8;

impl Value {
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            Self::Okay => Some("OK"),
            _ => None,
        }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

/// Packs a command whose words come in several lists.
pub(crate) fn push_command(out: &mut Vec<u8>, lists: &[&[&[u8]]]) {
    push_header(out, b'*', lists.iter().map(|list| list.len()).sum());
    for list in lists {
        for word in *list {
            push_word(out, &[word]);
        }
    }
}

/// Packs one word of a command, which may come in parts.
pub(crate) fn push_word(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let n_bytes = parts.iter().map(|part| part.len()).sum();
    // 24 more bytes for the header and the line end.
    out.reserve(n_bytes + 24);
    push_header(out, b'$', n_bytes);
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub(crate) fn push_header(out: &mut Vec<u8>, kind: u8, number: usize) {
    // Nearly all numbers here are short, and this code runs for every word: short numbers get a fast path.
    let digit = |number: usize| b'0' + (number % 10) as u8;
    match number {
        0..10 => out.extend_from_slice(&[kind, digit(number), b'\r', b'\n']),
        10..100 => {
            out.extend_from_slice(&[kind, digit(number / 10), digit(number), b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(Digits::of(number as u64).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Reads one frame from the start of `bytes`. Returns the frame and its length, or `None` if the frame is not
/// complete yet.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(reader.frame()?.map(|frame| (frame, reader.at)))
}

/// A fast path for the replies that nearly every call has. Returns the reply and its length.
#[inline]
pub(crate) fn common(bytes: &[u8]) -> Option<(Value, usize)> {
    match bytes {
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some((Value::Okay, 5)),
        [b'+', b'P', b'O', b'N', b'G', b'\r', b'\n', ..] => Some((Value::Okay, 7)),
        [b':', digits @ ..] => {
            let (number, n_digits) = leading_number(digits);
            let is_whole = n_digits > 0 && digits.get(n_digits..n_digits + 2) == Some(b"\r\n");
            is_whole.then_some((Value::Int(number), 1 + n_digits + 2))
        }
        _ => None,
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn frame(&mut self) -> Result<Option<Frame<'a>>> {
        if self.bytes.first() == Some(&b'>') {
            return self.push();
        }
        Ok(self.value(0)?.map(Frame::Reply))
    }

    // Not inlined, so that the code for replies, which are far more frequent, stays small.
    #[inline(never)]
    fn push(&mut self) -> Result<Option<Frame<'a>>> {
        const MESSAGES: [&[u8]; 2] = [b">3\r\n$7\r\nmessage\r\n", b">3\r\n$8\r\nsmessage\r\n"];
        if let Some(start) = MESSAGES.iter().find(|start| self.bytes.starts_with(start)) {
            self.at = start.len();
            let Some(channel) = self.word()? else { return Ok(None) };
            return Ok(self.word()?.map(|text| Frame::Message { channel, text }));
        }
        let Some(line) = self.line()? else { return Ok(None) };
        let n_items = length(&line[1..], LONGEST_LIST)?.unwrap_or(0);
        Ok(self.items(n_items, 1)?.map(Frame::Push))
    }

    fn value(&mut self, depth: usize) -> Result<Option<Value>> {
        if let Some((value, n_bytes)) = common(&self.bytes[self.at..]) {
            self.at += n_bytes;
            return Ok(Some(value));
        }
        let Some(line) = self.line()? else { return Ok(None) };
        let Some((kind, rest)) = line.split_first() else { return Err(garbled("an empty line")) };
        let value = match kind {
            b'+' if rest == b"OK" || rest == b"PONG" => Value::Okay,
            b'+' | b',' | b'(' => Value::Text(rest.to_vec()),
            b'-' => Value::Error(String::from_utf8_lossy(rest).into_owned()),
            b':' => Value::Int(number(rest)?),
            b'#' => Value::Int(i64::from(rest == b"t")),
            b'_' => Value::Nil,
            b'$' | b'=' | b'!' => {
                let Some(n_bytes) = length(rest, LONGEST_TEXT)? else {
                    return Ok(Some(Value::Nil));
                };
                let Some(text) = self.text(n_bytes)? else { return Ok(None) };
                match kind {
                    b'!' => Value::Error(String::from_utf8_lossy(text).into_owned()),
                    // A verbatim text begins with its kind, as in "txt:".
                    b'=' => Value::Text(text.get(4..).unwrap_or_default().to_vec()),
                    _ => Value::Text(text.to_vec()),
                }
            }
            b'*' | b'~' | b'%' | b'|' => {
                let Some(mut n_items) = length(rest, LONGEST_LIST)? else {
                    return Ok(Some(Value::Nil));
                };
                // A map is the list of its keys and values.
                if matches!(kind, b'%' | b'|') {
                    n_items *= 2;
                }
                let Some(items) = self.items(n_items, depth + 1)? else { return Ok(None) };
                // An attribute comes before its reply. We need none of them.
                if *kind == b'|' {
                    return self.value(depth);
                }
                Value::List(items)
            }
            _ => return Err(garbled("an unknown kind of reply")),
        };
        Ok(Some(value))
    }

    fn items(&mut self, n_items: usize, depth: usize) -> Result<Option<Vec<Value>>> {
        if depth > DEEPEST {
            return Err(garbled("lists too deep"));
        }
        // Do not reserve all of it: the announced number may be wrong.
        let mut items = Vec::with_capacity(n_items.min(64));
        for _ in 0..n_items {
            let Some(item) = self.value(depth)? else { return Ok(None) };
            items.push(item);
        }
        Ok(Some(items))
    }

    fn line(&mut self) -> Result<Option<&'a [u8]>> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        self.at += end + 1;
        rest[..end].strip_suffix(b"\r").map(Some).ok_or_else(|| garbled("a line without its end"))
    }

    /// Reads a text that has its length before it.
    fn word(&mut self) -> Result<Option<&'a [u8]>> {
        let Some(line) = self.line()? else { return Ok(None) };
        let n_bytes = line.strip_prefix(b"$").map(|digits| length(digits, LONGEST_TEXT));
        match n_bytes.transpose()?.flatten() {
            Some(n_bytes) => self.text(n_bytes),
            None => Err(garbled("a message that is none")),
        }
    }

    fn text(&mut self, n_bytes: usize) -> Result<Option<&'a [u8]>> {
        let rest = &self.bytes[self.at..];
        let Some((text, after)) = rest.split_at_checked(n_bytes) else { return Ok(None) };
        let Some(end) = after.get(..2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err(garbled("a text without its end"));
        }
        self.at += n_bytes + 2;
        Ok(Some(text))
    }
}

fn number(digits: &[u8]) -> Result<i64> {
    let digits = std::str::from_utf8(digits).ok();
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| garbled("a number that is none"))
}

/// A length. `None` stands for -1, which is nil in RESP2.
fn length(digits: &[u8], longest: usize) -> Result<Option<usize>> {
    match number(digits)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= longest => Ok(Some(length)),
            _ => Err(garbled("a length that cannot be")),
        },
    }
}

fn garbled(what: &str) -> Error {
    let message = format!("what answers there does not speak Redis's protocol: it sent {what}");
    Error::new(ErrorKind::Other, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_read() {
        for text in
            ["0", "7", "1234567", "12345678", "123456789", "6800000000000064", "922337203685477580"]
        {
            let bytes = format!(":{text}\r\n");
            let number = Value::Int(text.parse().unwrap());
            assert_eq!(parse(bytes.as_bytes()).unwrap(), Some((Frame::Reply(number), bytes.len())));
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn a_command_is_a_list_of_texts() {
        let mut out = Vec::new();
        push_command(&mut out, &[&[b"SET", b"a key"], &[b"", b"12345678901"]]);
        let expected = b"*4\r\n$3\r\nSET\r\n$5\r\na key\r\n$0\r\n\r\n$11\r\n12345678901\r\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let list = Value::List(vec![Value::Int(1), Value::Nil]);
        let cases = [
            ("+OK\r\n", Value::Okay),
            ("+PONG\r\n", Value::Okay),
            ("-ERR no\r\n", Value::Error("ERR no".into())),
            (":-7\r\n", Value::Int(-7)),
            ("$-1\r\n", Value::Nil),
            ("_\r\n", Value::Nil),
            ("#t\r\n", Value::Int(1)),
            (",1.5\r\n", text("1.5")),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("=6\r\ntxt:hi\r\n", text("hi")),
            ("!5\r\nERR x\r\n", Value::Error("ERR x".into())),
            ("*2\r\n:1\r\n_\r\n", list.clone()),
            ("~2\r\n:1\r\n_\r\n", list.clone()),
            ("%1\r\n:1\r\n_\r\n", list),
            ("|1\r\n+a\r\n+b\r\n:3\r\n", Value::Int(3)),
            ("*-1\r\n", Value::Nil),
        ];
        for (bytes, value) in cases {
            let read = parse(bytes.as_bytes()).unwrap();
            assert_eq!(read, Some((Frame::Reply(value), bytes.len())), "{bytes:?}");
        }
        let message = parse(b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\nab\r\n:1\r\n").unwrap();
        assert_eq!(message, Some((Frame::Message { channel: b"x", text: b"ab" }, 32)));
        let of_shard = parse(b">3\r\n$8\r\nsmessage\r\n$1\r\nx\r\n$2\r\nab\r\n").unwrap();
        assert_eq!(of_shard, Some((Frame::Message { channel: b"x", text: b"ab" }, 33)));
        let push = parse(b">2\r\n+message\r\n$1\r\nx\r\n").unwrap();
        assert_eq!(push, Some((Frame::Push(vec![text("message"), text("x")]), 21)));
    }

    #[test]
    fn half_a_frame_is_not_a_frame() {
        let whole = b"*2\r\n$5\r\nhello\r\n%1\r\n+a\r\n:1\r\n";
        for n_bytes in 0..whole.len() {
            assert_eq!(parse(&whole[..n_bytes]).unwrap(), None, "{n_bytes}");
        }
        assert!(parse(whole).unwrap().is_some());
    }

    #[test]
    fn what_is_no_redis_is_an_error() {
        let deep = "*1\r\n".repeat(20);
        for bytes in [
            "HTTP/1.1 400 Bad Request\r\n",
            "$99999999999\r\n",
            "$-2\r\n",
            "*1048577\r\n",
            ":one\r\n",
            "+no end\n",
            "$1\r\nab\r\n",
            &deep,
        ] {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
