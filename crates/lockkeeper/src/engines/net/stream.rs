//! The bytes of a connection, plain or through TLS.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(OwnedReadHalf, Arc<OwnedWriteHalf>),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn plain(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self::Plain(read, Arc::new(write))
    }

    /// For callers who write by themselves: only where one write is one system call.
    pub(crate) fn wire(&self) -> Option<Arc<OwnedWriteHalf>> {
        match self {
            Self::Plain(_, write) => Some(Arc::clone(write)),
            Self::Tls(_) => None,
        }
    }

    /// Reads some bytes; none at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(room);
        let read = match self {
            Self::Plain(read, _) => Pin::new(read).poll_read(context, &mut buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, &mut buffer),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(_, write) => loop {
                match write.try_write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let stream: &TcpStream = (**write).as_ref();
                        ready!(stream.poll_write_ready(context))?;
                    }
                    other => return Poll::Ready(other),
                }
            },
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(..) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }
}
