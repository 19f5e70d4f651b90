//! Redis Sentinel: who is the primary, and whom else to ask.

use super::{
    call::Call,
    handshake::Hello,
    refusal::{no_error, strange},
    resp::Value,
    route::{Found, Table},
    slot::N_SLOTS,
};
use crate::{
    error::{Error, Result},
    url::Host,
};

/// Asks a sentinel for the primary of this name, and the primary whether it is one.
pub(super) async fn ask(
    hello: &Hello,
    sentinel: &Host,
    primary: &str,
    server: &Hello,
) -> Result<Found> {
    let name = primary.as_bytes();
    let mut call = Call::of(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name]);
    call.add(&[b"SENTINEL", b"SENTINELS", name]);
    let replies = hello.ask(sentinel, &call).await?;
    if let Some(Value::Nil) = replies.first() {
        return Err(Error::refused(format!(
            "knows no primary called {primary:?}; correct the name after the sentinels in the URL"
        )));
    }
    let replies = no_error(replies)?;
    let [Value::List(address), Value::List(others)] = &replies[..] else {
        return Err(strange(&replies));
    };
    let [name, port] = &address[..] else { return Err(strange(&replies)) };
    let host = host(name, port).ok_or_else(|| strange(&replies))?;
    // A sentinel that was cut off for a while may name one that is not primary any more.
    drop(server.open(&host, "").await?);
    let mut table = Table::empty();
    table.set(0, N_SLOTS - 1, host);
    let guides = others.iter().filter_map(|other| address_in(other.as_list()?)).collect();
    Ok(Found { table, guides })
}

fn host(name: &Value, port: &Value) -> Option<Host> {
    let name = name.as_text().filter(|name| !name.is_empty())?;
    Some(Host { name: name.to_owned(), port: u16::try_from(port.as_int()?).ok()? })
}

/// The address among the many fields that a sentinel tells about another.
fn address_in(fields: &[Value]) -> Option<Host> {
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find(|pair| pair[0].as_text() == Some(name)).map(|pair| &pair[1])
    };
    host(field("ip")?, field("port")?)
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
}
