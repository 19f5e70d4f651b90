//! What a URL says about a Redis.

use std::sync::Arc;

use super::distinct_servers::Place;
use crate::{
    engine::error::{Error, Result},
    engines::net::tls::Tls,
    tools::url::{Host, Secret, Url},
};

/// Where the servers are and how they are reached.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) arrangement: Arrangement,
    pub(crate) hosts: Vec<Host>,
    pub(crate) login: Login,
    pub(crate) database: u32,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) dialect: Dialect,
    /// What stands before every key at the server.
    pub(crate) prefix: Option<String>,
    /// How many replicas must have a grant before it counts.
    pub(crate) wait_replicas: u32,
    /// Whether a server that may evict locks is taken all the same.
    pub(crate) evicting_allowed: bool,
    /// Which of several servers it is, where no two may be one and the same.
    pub(crate) place: Option<Place>,
}

/// How the servers stand to each other.
#[derive(Clone, Debug)]
pub(crate) enum Arrangement {
    Single,
    /// The hosts are sentinels, with a login of their own.
    Sentinel {
        primary: String,
        login: Login,
    },
    Cluster,
}

/// How a lock looks at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Native,
    Plain,
    Redisson,
}

/// User and password.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Settings {
    /// Reads a URL whose scheme is one of `redis`, `rediss`, `redis+sentinel`, `rediss+sentinel`,
    /// `redis+cluster`, `rediss+cluster`.
    pub(crate) fn read(mut url: Url) -> Result<Self> {
        let (base, kind) = url.scheme.split_once('+').unwrap_or((&url.scheme, ""));
        let (with_tls, kind) = (base == "rediss", kind.to_owned());
        let (user, password) = url.credentials()?;
        let login = Login { user, password };
        let path: Vec<_> = url.path.trim_matches('/').split('/').map(str::to_owned).collect();
        let mut path = path.into_iter();
        let (arrangement, usual_port) = match kind.as_str() {
            "" => (Arrangement::Single, PORT),
            "cluster" => (Arrangement::Cluster, PORT),
            "sentinel" => {
                let primary = path.next().filter(|name| !name.is_empty()).ok_or_else(|| {
                    Error::bad_options(
                        "a redis+sentinel: URL needs the name of the primary after the sentinels, \
                         as in redis+sentinel://host1,host2,host3/mymaster",
                    )
                })?;
                let user = url.take("sentinel-user");
                let password = url.take("sentinel-password").map(Secret);
                (Arrangement::Sentinel { primary, login: Login { user, password } }, SENTINEL_PORT)
            }
            other => {
                return Err(Error::bad_options(format!("no kind of Redis is called {other:?}")));
            }
        };
        let database = database(path, &arrangement)?;
        let hosts = url.hosts(usual_port)?;
        if matches!(arrangement, Arrangement::Single) && hosts.len() > 1 {
            return Err(Error::bad_options(
                "a redis: URL names one server; for several, write redis+sentinel:, \
                 redis+cluster: or redlock:",
            ));
        }
        let dialect = dialect(&mut url)?;
        let tls = Tls::read(&mut url, with_tls, "rediss")?;
        let evicting_allowed = match url.take("evicting").as_deref() {
            None => false,
            Some("allowed") => true,
            Some(_) => {
                return Err(Error::bad_options("the parameter \"evicting\" may be allowed"));
            }
        };
        let wait_replicas = url.take_number("wait-replicas")?.unwrap_or(0);
        let prefix = url.take("prefix");
        url.no_more_parameters()?;
        Ok(Self {
            arrangement,
            hosts,
            login,
            database,
            tls,
            dialect,
            prefix,
            wait_replicas,
            evicting_allowed,
            place: None,
        })
    }
}

impl Arrangement {
    /// What breaks the promise of a lock, whatever its dialect.
    pub(crate) fn broken_by(&self) -> &'static str {
        match self {
            Self::Single => {
                "A server that loses its data (a restart without persistence, FLUSHALL, eviction) or whose clock \
                 jumps ahead; clients of another dialect."
            }
            Self::Sentinel { .. } | Self::Cluster => {
                "A failover that loses a grant, an old primary that lives on, a server that loses its data or whose \
                 clock jumps ahead; clients of another dialect."
            }
        }
    }
}

fn dialect(url: &mut Url) -> Result<Dialect> {
    match url.take("dialect").as_deref() {
        None | Some("native") => Ok(Dialect::Native),
        Some("plain") => Ok(Dialect::Plain),
        Some("redisson") => Ok(Dialect::Redisson),
        Some(_) => {
            Err(Error::bad_options("the parameter \"dialect\" may be native, plain or redisson"))
        }
    }
}

fn database(mut path: impl Iterator<Item = String>, arrangement: &Arrangement) -> Result<u32> {
    let database = match path.next().as_deref() {
        None | Some("") => 0,
        Some(number) => number.parse().map_err(|_| {
            Error::bad_options("the path of a Redis URL is the number of a database, as in /0")
        })?,
    };
    if database > 0 && matches!(arrangement, Arrangement::Cluster) {
        return Err(Error::bad_options("Redis Cluster has only the database 0"));
    }
    if path.next().is_some() {
        return Err(Error::bad_options("the path of the URL has too many parts"));
    }
    Ok(database)
}
