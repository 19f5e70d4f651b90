//! The client of one server: where it is, and one pipelined connection per runtime of the callers.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{
    dial::dial,
    own_runtime::OwnRuntime,
    per_runtime::PerRuntime,
    pipeline::{Pipeline, Protocol},
    tls::Tls,
};
use crate::{
    engine::{
        Moment,
        error::{Error, Result},
    },
    tools::url::{Host, Url},
};

#[derive(Debug)]
pub(crate) struct OneServer<P: Protocol> {
    host: Host,
    tls: Option<Arc<Tls>>,
    links: PerRuntime<Pipeline<P>>,
}

impl<P: Protocol> OneServer<P> {
    /// Takes the server and the parameters of TLS out of a URL, whose scheme is `plain`, or the same with an
    /// `s` behind it for TLS. `why` says what would be wrong with several servers. A login is refused. Nothing
    /// is sent yet.
    pub(crate) fn read(url: &mut Url, plain: &str, port: u16, why: &str) -> Result<Self> {
        if url.authority.as_deref().is_some_and(|authority| authority.contains('@')) {
            return Err(Error::bad_options(format!(
                "{plain}: takes no user and no password: logins are not supported; use TLS ({plain}s:) \
                 or a private network"
            )));
        }
        let mut hosts = url.hosts(port)?;
        let (Some(host), true) = (hosts.pop(), hosts.is_empty()) else {
            return Err(Error::bad_options(format!("a {plain}: URL names one server: {why}")));
        };
        if !matches!(url.path.as_str(), "" | "/") {
            let message = format!("a {plain}: URL has no path; write {plain}://host:port");
            return Err(Error::bad_options(message));
        }
        let is_secure = url.scheme != plain;
        let tls = Tls::read(url, is_secure, &format!("{plain}s"))?;
        let own_runtime = Arc::new(OwnRuntime::new(format!("lockkeeper-{plain}")));
        Ok(Self { host, tls, links: PerRuntime::new(own_runtime) })
    }

    /// The connection for the caller.
    pub(crate) fn link(&self, now: Moment) -> Result<Arc<Pipeline<P>>> {
        self.links.get(&self.host, now, |runtime| self.open(runtime))
    }

    /// A connection for this caller alone, who ends it.
    pub(crate) fn link_apart(&self) -> Result<Arc<Pipeline<P>>> {
        self.links.open_apart(|runtime| self.open(runtime))
    }

    /// Sends a request over the connection for the caller.
    pub(crate) async fn call(&self, request: &[u8], now: Moment) -> Result<P::Response> {
        self.link(now)?.call(request, now).await
    }

    fn open(&self, runtime: &Handle) -> Arc<Pipeline<P>> {
        let (host, tls) = (self.host.clone(), self.tls.clone());
        Pipeline::open(runtime, async move { dial(&host, tls.as_deref()).await })
    }
}
