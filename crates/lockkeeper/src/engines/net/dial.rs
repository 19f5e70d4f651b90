//! From an address to a stream of bytes: TCP, its options, and TLS.

use std::time::Duration;

use tokio::net::TcpStream;

use super::{stream::Stream, tls::Tls};
use crate::{
    engine::error::{Error, Result},
    tools::url::Host,
};

/// The kernel gives a silent connection up after this long.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Connects to a server.
pub(crate) async fn dial(host: &Host, tls: Option<&Tls>) -> Result<Stream> {
    let stream = TcpStream::connect((host.name.as_str(), host.port))
        .await
        .map_err(|error| Error::unreachable(format!("{host} cannot be reached"), error))?;
    tune(&stream).map_err(|error| Error::unreachable("the connection broke", error))?;
    Ok(match tls {
        None => Stream::plain(stream),
        Some(tls) => Stream::Tls(Box::new(tls.connect(stream, host).await?)),
    })
}

fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(KEEPALIVE * 2))?;
    Ok(())
}
