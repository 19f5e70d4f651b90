//! Errors of a server: what each means to a caller, and what the caller can do.

use std::ops::Deref;

use super::resp::Value;
use crate::engine::error::{Error, ErrorKind, Result};

/// The first error among the replies, if there is one.
pub(crate) fn first_error(replies: &[Value]) -> Option<&str> {
    replies.iter().find_map(|reply| match reply {
        Value::Error(text) => Some(text.as_str()),
        _ => None,
    })
}

/// The replies, unless one of them is an error.
pub(crate) fn no_error<R: Deref<Target = [Value]>>(replies: R) -> Result<R> {
    match first_error(&replies) {
        Some(text) => Err(refusal(text)),
        None => Ok(replies),
    }
}

/// Whether the server cannot serve commands at present, or is no longer the right server.
pub(crate) fn is_out_of_office(code: &str) -> bool {
    const CODES: [&str; 7] = [
        "READONLY",
        "LOADING",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "NOREPLICAS",
        "TRYAGAIN",
        "UNKILLABLE",
    ];
    CODES.contains(&code)
}

/// Whether the server has forgotten a script of ours.
pub(crate) fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if code(text) == "NOSCRIPT")
}

/// The code of an error: its first word.
pub(crate) fn code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

const WRONG_TYPE: &str = "what is stored at the key is not a lock of this dialect; use another key or \
     prefix, or the dialect it was made with";

/// Translates an error of the server into an error for the caller.
pub(crate) fn refusal(text: &str) -> Error {
    let (kind, advice) = match code(text) {
        "WRONGPASS" => {
            (ErrorKind::Refused, "the user or the password is wrong; correct it in the URL")
        }
        "NOAUTH" => (
            ErrorKind::Refused,
            "the server wants a password, and the URL has none for it; write it before the host, \
             between a colon and an @ (that of sentinels as the parameter sentinel-password)",
        ),
        "NOPERM" => (
            ErrorKind::Refused,
            "the user may not do that; the page of the Redis engine has the rights it needs",
        ),
        "DENIED" => (
            ErrorKind::Refused,
            "the server is in protected mode; give it a password, or let it listen on this network \
             on purpose",
        ),
        "WRONGTYPE" => (ErrorKind::Refused, WRONG_TYPE),
        "MOVED" | "ASK" => (
            ErrorKind::Refused,
            "the server is part of a cluster; write redis+cluster: instead of redis:",
        ),
        "OOM" => (ErrorKind::Refused, "the server's memory is full; give it more"),
        "MISCONF" => (ErrorKind::Refused, "the server refuses to write; look into its log"),
        "NOPROTO" => (ErrorKind::Refused, "the server is too old; Redis 6.2 or newer is needed"),
        "BUSY" => (ErrorKind::Unreachable, "the server is busy with somebody's script"),
        code if is_out_of_office(code) => {
            (ErrorKind::Unreachable, "the server cannot do that just now")
        }
        // A script touched a slot that is being moved to another node.
        _ if text.contains("non local key") => {
            (ErrorKind::Unreachable, "the key is being moved to another server")
        }
        // The type of the key is wrong. Older servers put this code after words of their own.
        _ if text.contains(" WRONGTYPE ") => (ErrorKind::Refused, WRONG_TYPE),
        _ if text.contains("max number of clients") => (
            ErrorKind::Unreachable,
            "the server has as many clients as it takes; raise its maxclients, or close some",
        ),
        _ if text.contains("unknown command") => (
            ErrorKind::Refused,
            "the server does not know a command; it is older than Redis 6.2, or the command was \
             renamed",
        ),
        _ => (ErrorKind::Other, "the server answered with an error"),
    };
    // The text of the server contains no secret of ours: it repeats names of commands. Only for an unknown command it
    // repeats the first arguments, and no such command of ours has a secret there.
    Error::new(kind, format!("{advice} ({})", printable(text)))
}

/// Makes text of a server safe to print.
fn printable(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The error for a reply that does not fit the call.
pub(crate) fn unexpected(replies: &[Value]) -> Error {
    // Cut between characters, not between bytes: a character may have several bytes.
    let shown: String = format!("{replies:?}").chars().take(200).collect();
    Error::new(ErrorKind::Other, format!("the server's reply makes no sense here: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_kind_to_act_on() {
        for (text, kind) in [
            ("WRONGPASS invalid username-password pair", ErrorKind::Refused),
            ("NOAUTH Authentication required.", ErrorKind::Refused),
            ("NOPERM this user has no permissions", ErrorKind::Refused),
            ("WRONGTYPE Operation against a key", ErrorKind::Refused),
            ("LOADING Redis is loading", ErrorKind::Unreachable),
            ("MOVED 1 a:1", ErrorKind::Refused),
            ("ERR Script attempted to access a non local key", ErrorKind::Unreachable),
            ("CLUSTERDOWN The cluster is down", ErrorKind::Unreachable),
            ("ERR unknown command 'HELLO'", ErrorKind::Refused),
            ("ERR max number of clients reached", ErrorKind::Unreachable),
            ("ERR max number of clients + cluster connections reached", ErrorKind::Unreachable),
            ("ERR Error running script: @user_script:1: WRONGTYPE Operation", ErrorKind::Refused),
            ("ERR something", ErrorKind::Other),
        ] {
            assert_eq!(refusal(text).kind(), kind, "{text}");
        }
    }

    #[test]
    fn a_strange_answer_is_cut_between_characters() {
        for n_before in 0..4 {
            let answer = "-".repeat(n_before) + &"ü€𝄞".repeat(100);
            let error = unexpected(&[Value::Error(answer)]).to_string();
            assert!(error.contains("ü€𝄞") && error.chars().count() < 300, "{error}");
        }
    }
}
