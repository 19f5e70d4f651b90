//! Redis Sentinel: which server is the primary, and which other sentinels there are.

use super::{route::Found, table::Table};
use crate::{
    engine::error::{Error, Result},
    engines::redis::{
        server::handshake::Hello,
        wire::{
            call::Call,
            refusal::{no_error, unexpected},
            resp::Value,
        },
    },
    tools::url::Host,
};

/// The channels on which sentinels announce a new primary. The sentinel that promoted it announces it on the second
/// channel first; the others follow on the first channel.
const SWITCHES: [&[u8]; 2] = [b"+switch-master", b"+promoted-slave"];

/// Asks for the primary of this name and its term. The second reply has an address too, but for a while that is the
/// old address with the new term.
pub(crate) fn question(primary: &str) -> Call {
    let name = primary.as_bytes();
    let mut call = Call::of(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name]);
    call.add(&[b"SENTINEL", b"MASTER", name]);
    call
}

/// Subscribes to announcements of a new primary.
pub(crate) fn listen(call: &mut Call) {
    SWITCHES.iter().for_each(|channel| call.add(&[b"SUBSCRIBE", channel]));
}

/// The primary and its term, from the replies to [`question`].
pub(crate) fn primary_in(replies: &[Value]) -> Option<(Host, u64)> {
    let [address, fields] = replies else { return None };
    let [name, port] = address.as_list()? else { return None };
    let term = field(fields.as_list()?, "config-epoch")?.as_int()?;
    Some((host(name, port)?, term.try_into().ok()?))
}

/// Asks a sentinel for the primary of this name, and asks that server whether it is a primary. This also shows whether
/// the sentinel lets us subscribe: a client without that right would go on using a deposed primary.
pub(crate) async fn ask(
    hello: &Hello,
    sentinel: &Host,
    primary: &str,
    server: &Hello,
) -> Result<Found> {
    let mut call = question(primary);
    call.add(&[b"SENTINEL", b"SENTINELS", primary.as_bytes()]);
    listen(&mut call);
    let replies = hello.ask(sentinel, &call).await?;
    if let Some(Value::Nil) = replies.first() {
        return Err(Error::refused(format!(
            "knows no primary called {primary:?}; correct the name after the sentinels in the URL"
        )));
    }
    let replies = no_error(replies)?;
    let [address, fields, Value::List(others), ..] = &replies[..] else {
        return Err(unexpected(&replies));
    };
    let primary = primary_in(&[address.clone(), fields.clone()]);
    let (host, term) = primary.ok_or_else(|| unexpected(&replies))?;
    // A sentinel that was cut off for a while may name a server that is no longer primary.
    drop(server.open(&host, "").await?);
    let table = Table::of_one(host);
    let guides = others.iter().filter_map(|other| address_in(other.as_list()?)).collect();
    Ok(Found { table, guides, term })
}

fn host(name: &Value, port: &Value) -> Option<Host> {
    let name = name.as_text().filter(|name| !name.is_empty())?;
    Some(Host { name: name.to_owned(), port: u16::try_from(port.as_int()?).ok()? })
}

/// The address among the fields that a sentinel returns about a server.
fn address_in(fields: &[Value]) -> Option<Host> {
    host(field(fields, "ip")?, field(fields, "port")?)
}

fn field<'a>(fields: &'a [Value], name: &str) -> Option<&'a Value> {
    let mut pairs = fields.chunks_exact(2);
    pairs.find(|pair| pair[0].as_text() == Some(name)).map(|pair| &pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_sentinel_is_found_among_its_fields() {
        let fields = ["name", "abc", "ip", "10.0.0.1", "port", "26379", "runid", "abc"];
        let fields = fields.map(|field| Value::Text(field.into()));
        assert_eq!(address_in(&fields).unwrap().to_string(), "10.0.0.1:26379");
        assert!(address_in(&fields[..4]).is_none());
    }

    #[test]
    fn the_primary_is_the_one_that_is_named_with_the_term_that_is_told() {
        let list = |words: &[&str]| {
            Value::List(words.iter().map(|word| Value::Text((*word).into())).collect())
        };
        let fields = list(&["ip", "10.0.0.1", "port", "1", "config-epoch", "7"]);
        let (host, term) = primary_in(&[list(&["10.0.0.2", "2"]), fields.clone()]).unwrap();
        assert_eq!((host.to_string().as_str(), term), ("10.0.0.2:2", 7));
        assert!(primary_in(&[Value::Nil, fields]).is_none());
        assert!(primary_in(&[list(&["10.0.0.2", "2"]), list(&[])]).is_none());
    }
}
