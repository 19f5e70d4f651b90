//! Redis Cluster: which node has which slots, and redirections.

use super::{route::Found, table::Table};
use crate::{
    engine::error::{Error, ErrorKind, Result},
    engines::redis::{
        server::handshake::Hello,
        wire::{
            call::Call,
            refusal::{first_error, no_error, unexpected},
            resp::Value,
        },
    },
    tools::url::Host,
};

/// Asks a node which nodes have which slots.
pub(crate) async fn ask(hello: &Hello, node: &Host) -> Result<Found> {
    let mut call = Call::of(&[b"CLUSTER", b"INFO"]);
    call.add(&[b"CLUSTER", b"SLOTS"]);
    let replies = hello.ask(node, &call).await?;
    if first_error(&replies).is_some_and(|text| text.contains("cluster support disabled")) {
        return Err(Error::refused(
            "the server is not part of a cluster; write redis: instead of redis+cluster:",
        ));
    }
    let replies = no_error(replies)?;
    let [info, Value::List(ranges)] = &replies[..] else { return Err(unexpected(&replies)) };
    let info = info.as_text().unwrap_or_default();
    if !info.contains("cluster_state:ok") {
        // This node would refuse every command. Another node may be able to serve.
        return Err(Error::new(ErrorKind::Unreachable, "CLUSTERDOWN, too many nodes are gone"));
    }
    read(ranges, node).ok_or_else(|| unexpected(&replies))
}

fn read(ranges: &[Value], asked: &Host) -> Option<Found> {
    let (mut table, mut guides) = (Table::empty(), Vec::new());
    for range in ranges {
        let [first, last, nodes @ ..] = range.as_list()? else { return None };
        let slot = |value: &Value| u16::try_from(value.as_int()?).ok();
        let mut hosts = nodes.iter().map(|node| host(node.as_list()?, asked));
        // The first node is the primary. A primary without a known address cannot be used.
        if let Some(primary) = hosts.next().flatten() {
            table.set(slot(first)?, slot(last)?, primary.clone());
            guides.push(primary);
        }
        guides.extend(hosts.flatten());
    }
    Some(Found { table, guides, term: 0 })
}

/// The address of a node. A node that does not know its own address has the one that we asked.
fn host(node: &[Value], asked: &Host) -> Option<Host> {
    let [name, port, ..] = node else { return None };
    let name = match name.as_text() {
        None | Some("") => &asked.name,
        Some("?") => return None,
        Some(name) => name,
    };
    Some(Host { name: name.to_owned(), port: u16::try_from(port.as_int()?).ok()? })
}

/// A redirection to another node.
#[derive(Debug, PartialEq)]
pub(crate) struct Redirection {
    pub(crate) to: Host,
    /// `ASK`, for one command only: the slot is being moved. Otherwise (`MOVED`) the slot has moved.
    pub(crate) is_for_once: bool,
}

impl Redirection {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`.
    pub(crate) fn read(reply: &Value, asked: &Host) -> Option<Self> {
        let Value::Error(text) = reply else { return None };
        let mut words = text.split(' ');
        let is_for_once = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        // An IPv6 address has colons, and no brackets here.
        let (name, port) = words.nth(1)?.rsplit_once(':')?;
        let name = if name.is_empty() { &asked.name } else { name };
        let to = Host { name: name.to_owned(), port: port.parse().ok()? };
        Some(Self { to, is_for_once })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn node(name: Value, port: i64) -> Value {
        Value::List(vec![name, Value::Int(port), text("id")])
    }

    #[test]
    fn a_nodes_word_about_slots_is_read() {
        let asked = Host { name: "seed".into(), port: 1 };
        let range = |first, last, nodes: Vec<Value>| {
            Value::List([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let ranges = [
            range(0, 99, vec![node(Value::Nil, 7), node(text("::1"), 8)]),
            range(100, 16383, vec![node(text("a.example"), 9), node(text("?"), 9)]),
        ];
        let found = read(&ranges, &asked).unwrap();
        let guides: Vec<_> = found.guides.iter().map(Host::to_string).collect();
        assert_eq!(guides, ["seed:7", "[::1]:8", "a.example:9"]);
        assert!(read(&[range(0, 70_000, vec![node(text("a"), 9)])], &asked).is_none());
        assert!(read(&[text("strange")], &asked).is_none());
    }

    #[test]
    fn redirections_are_read() {
        let asked = Host { name: "here".into(), port: 1 };
        let read = |text: &str| Redirection::read(&Value::Error(text.into()), &asked);
        let moved = read("MOVED 3999 127.0.0.1:6381").unwrap();
        assert_eq!((moved.to.to_string().as_str(), moved.is_for_once), ("127.0.0.1:6381", false));
        assert!(read("ASK 1 ::1:7").is_some_and(|it| it.is_for_once && it.to.name == "::1"));
        assert_eq!(read("MOVED 1 :7").unwrap().to.to_string(), "here:7");
        for other in ["MOVED", "MOVED 1", "MOVED 1 a", "MOVED 1 a:x", "ERR 1 a:1"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
