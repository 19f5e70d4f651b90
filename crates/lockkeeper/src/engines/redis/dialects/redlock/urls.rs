//! Which servers a `redlock:` URL names.

use super::names::Prefix;
use crate::{
    engine::error::{Error, Result},
    engines::redis::server::{
        distinct_servers::Place,
        settings::{Dialect, Settings},
    },
    tools::url::{Url, listed},
};

const PORT: u16 = 6379;
const FEWEST: usize = 3;

/// The servers, and what stands before every key.
pub(super) fn read(mut url: Url) -> Result<(Vec<Settings>, Prefix)> {
    // Read below as well, where they mean something that is not so here.
    for name in ["dialect", "wait-replicas"] {
        if url.take(name).is_some() {
            return Err(Error::bad_options(format!("redlock: has no parameter {name:?}")));
        }
    }
    let prefix = Prefix::new(url.take("prefix").unwrap_or_default())?;
    let mut servers = match url.take("servers") {
        Some(list) => {
            if url.authority.as_deref().is_some_and(|hosts| !hosts.is_empty()) {
                return Err(Error::bad_options(
                    "name the servers as hosts or with the parameter \"servers\", not both",
                ));
            }
            url.no_more_parameters()?;
            listed(&list).iter().map(|url| one(url)).collect::<Result<_>>()?
        }
        None => hosts(url)?,
    };
    let n_servers = servers.len();
    if n_servers < FEWEST || n_servers.is_multiple_of(2) {
        return Err(Error::bad_options(format!(
            "a majority needs an odd number of servers, {FEWEST} or more, and the URL names \
             {n_servers}; one more than an odd number makes nothing safer"
        )));
    }
    for (at, server) in servers.iter().enumerate() {
        if let Some(twin) = servers[..at].iter().find(|other| other.hosts == server.hosts) {
            return Err(Error::bad_options(format!(
                "the URL names {} twice; each server has one vote",
                twin.hosts[0]
            )));
        }
    }
    for (server, place) in servers.iter_mut().zip(Place::row(n_servers)) {
        server.place = Some(place);
    }
    Ok((servers, prefix))
}

/// Hosts that are reached in one and the same way.
fn hosts(mut url: Url) -> Result<Vec<Settings>> {
    let hosts = url.hosts(PORT)?;
    let authority = url.authority.take().unwrap_or_default();
    let login = authority.rsplit_once('@').map(|(login, _)| login);
    let first = &hosts[0];
    url.authority = Some(login.map_or(first.to_string(), |login| format!("{login}@{first}")));
    url.scheme = if url.scheme == "redlocks" { "rediss".into() } else { "redis".into() };
    let settings = Settings::read(url)?;
    let same = |host| Settings { hosts: vec![host], ..settings.clone() };
    Ok(hosts.into_iter().map(same).collect())
}

fn one(url: &str) -> Result<Settings> {
    let url = Url::parse(url)?;
    if !matches!(url.scheme.split('+').next(), Some("redis" | "rediss")) {
        return Err(Error::bad_options(
            "the parameter \"servers\" takes URLs of the kinds redis:, redis+sentinel: and \
             redis+cluster:, and their kin with TLS",
        ));
    }
    let settings = Settings::read(url)?;
    if settings.dialect != Dialect::Native
        || settings.prefix.is_some()
        || settings.wait_replicas > 0
    {
        return Err(Error::bad_options(
            "a URL in the parameter \"servers\" takes no dialect, prefix or wait-replicas",
        ));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts_of(url: &str) -> Result<Vec<String>> {
        let (servers, _) = read(Url::parse(url)?)?;
        let hosts = |server: &Settings| -> Vec<_> {
            server.hosts.iter().map(ToString::to_string).collect()
        };
        Ok(servers.iter().map(|server| hosts(server).join("+")).collect())
    }

    #[test]
    fn servers_are_hosts_or_urls() {
        assert_eq!(hosts_of("redlock://a,b:7,[::1]").unwrap(), ["a:6379", "b:7", "[::1]:6379"]);
        let url = "redlock://me:pw@a,b,c/2?prefix=x&evicting=allowed";
        let (servers, _) = read(Url::parse(url).unwrap()).unwrap();
        assert!(servers.iter().all(|server| {
            server.database == 2
                && server.login.user.as_deref() == Some("me")
                && server.login.password.is_some()
                && server.place.is_some()
        }));
        for between in ["%20", ",", "%2C", ",%20"] {
            let servers =
                ["redis://a", "redis%2Bsentinel://x%2Cy%3A1,z/m", "redis://:p%2540w@b:7/1"];
            let url = format!("redlock:?servers={}", servers.join(between));
            let hosts = hosts_of(&url).unwrap();
            assert_eq!(hosts, ["a:6379", "x:26379+y:1+z:26379", "b:7"], "{between}");
        }
    }

    #[test]
    fn what_cannot_be_a_majority_is_refused() {
        for url in [
            "redlock://a",
            "redlock://a,b",
            "redlock://a,b,c,d",
            "redlock://a,b,a",
            "redlock://a,b,a:6379",
            "redlock://a,b,c?dialect=plain",
            "redlock://a,b,c?wait-replicas=1",
            "redlock://a,b,c?unknown=1",
            "redlock://a,b,c?prefix={x}",
            "redlock://a,b,c?ca=x",
            "redlock://a?servers=redis://b,redis://c,redis://d",
            "redlock:?servers=redis://b,redis://c,redis://d&ca=x",
            "redlock:?servers=redis://b,redis://c,file:///d",
            "redlock:?servers=redis://b,redis://c,redis://d?dialect%3Dplain",
        ] {
            assert!(hosts_of(url).is_err(), "{url}");
        }
    }
}
