//! What every engine at a distance shares: a runtime for callers without one, a connection per runtime,
//! bytes over TCP and TLS, how a connection is driven, requests in order over one connection, sessions that claims share, listeners, and several futures at once.
//! It may import `engine/` and `tools/`.

pub(crate) mod base64;
pub(crate) mod dial;
pub(crate) mod driving;
pub(crate) mod holder;
pub(crate) mod listener;
pub(crate) mod one_server;
pub(crate) mod own_runtime;
pub(crate) mod per_runtime;
pub(crate) mod pipeline;
#[allow(
    dead_code,
    unused_imports,
    reason = "ZooKeeper and etcd, its users, are not in this version yet"
)]
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod together;
