//! Reads the URLs that name an engine.

use std::fmt;

use crate::engine::error::{Error, Result};

/// A URL in its parts. What cannot be read is an error that repeats no secret: neither the user
/// part nor the parameters' values are ever printed.
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// What stands between `//` and the path; `None` without `//`.
    pub(crate) authority: Option<String>,
    /// The path, decoded.
    pub(crate) path: String,
    parameters: Vec<(String, String)>,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(Error::bad_options(
                "the URL has no scheme; write for example file:///var/lib/app/locks",
            ));
        };
        if scheme.is_empty() || !scheme.chars().all(is_scheme) {
            return Err(Error::bad_options("the URL does not begin with a scheme such as file:"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            None => (None, rest),
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Some(rest[..end].to_owned()), &rest[end..])
            }
        };
        if may_be_torn(scheme, authority.as_deref(), path, query) {
            return Err(Error::bad_options(
                "the URL has an @ behind its hosts, which may belong to a password; in a user, a password or a \
                 parameter write / as %2F, ? as %3F, # as %23, @ as %40 and % as %25",
            ));
        }
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name)?;
            if parameters.iter().any(|(known, _)| *known == name) {
                let message = format!("the URL has the parameter {name:?} twice");
                return Err(Error::bad_options(message));
            }
            parameters.push((name, decoded(value)?));
        }
        let scheme = scheme.to_ascii_lowercase();
        Ok(Self { scheme, authority, path: decoded(path)?, parameters })
    }

    /// Takes a parameter out.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(known, _)| known == name)?;
        Some(self.parameters.remove(at).1)
    }

    /// Takes a parameter out that is a whole number.
    pub(crate) fn take_number(&mut self, name: &str) -> Result<Option<u32>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| Error::bad_options(format!("the parameter {name:?} needs a whole number")))
    }

    /// The user and the password before the `@`.
    pub(crate) fn credentials(&self) -> Result<(Option<String>, Option<Secret>)> {
        let Some((user, _)) = self.authority.as_deref().and_then(|all| all.rsplit_once('@')) else {
            return Ok((None, None));
        };
        let (user, password) = match user.split_once(':') {
            None => (user, None),
            Some((user, password)) => (user, Some(Secret(decoded(password)?))),
        };
        let user = decoded(user)?;
        Ok(((!user.is_empty()).then_some(user), password))
    }

    /// The hosts, which are separated by commas.
    pub(crate) fn hosts(&self, usual_port: u16) -> Result<Vec<Host>> {
        let authority = self.authority.as_deref().unwrap_or_default();
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        hosts.split(',').map(|host| Host::parse(host, usual_port)).collect()
    }

    /// Ends the reading: a parameter that no engine took is an error.
    pub(crate) fn no_more_parameters(&self) -> Result<()> {
        let Some((name, _)) = self.parameters.first() else { return Ok(()) };
        Err(Error::bad_options(format!(
            "{}: has no parameter {name:?}; remove it or correct its name",
            self.scheme
        )))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.scheme)
    }
}

/// A URL as people may see it: without users, without passwords, and without parameters that have
/// "password" in their name. The servers that a `redlock:` URL lists are treated likewise.
///
/// A URL that holds no secret comes back as it is, so a difference says that there is one. Of a text
/// that cannot be read as a URL only the scheme is left.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    seen(url, Depth::Outer)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Outer,
    /// A URL in a parameter of another one, which has no further ones in it.
    Inner,
}

fn seen(url: &str, depth: Depth) -> String {
    let Ok(Url { scheme, .. }) = Url::parse(url) else {
        return match url.split_once(':') {
            Some((scheme, _)) if scheme.chars().all(is_scheme) => format!("{scheme}:…"),
            _ => "…".into(),
        };
    };
    // The same cuts as in `parse`, so that nothing is a secret here and a host there.
    let (rest, query) =
        url.split_once('?').map_or((url, None), |(rest, query)| (rest, Some(query)));
    let after_scheme = &rest[scheme.len() + 1..];
    let mut text = rest[..=scheme.len()].to_owned();
    match after_scheme.strip_prefix("//") {
        None => text += after_scheme,
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
            text = text + "//" + hosts + path;
        }
    }
    let Some(query) = query else { return text };
    let pairs: Vec<String> = query.split('&').filter_map(|pair| seen_pair(pair, depth)).collect();
    if pairs.is_empty() { text } else { text + "?" + &pairs.join("&") }
}

/// A parameter as people may see it; none, if it is a secret.
fn seen_pair(pair: &str, depth: Depth) -> Option<String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let (clear_name, value) = (decoded(name).ok()?, decoded(value).ok()?);
    if clear_name.to_ascii_lowercase().contains("password") {
        return None;
    }
    if clear_name != "servers" && !value.contains("://") {
        return Some(pair.to_owned());
    }
    if depth == Depth::Inner {
        return None;
    }
    let servers = listed(&value);
    let safe: Vec<String> = servers.iter().map(|server| seen(server, Depth::Inner)).collect();
    Some(if safe == servers { pair.to_owned() } else { format!("{name}={}", safe.join(",")) })
}

/// Whole URLs, separated by spaces or commas. A comma may also separate the hosts of one of them.
pub(crate) fn listed(list: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for word in list.split_whitespace() {
        let mut is_first = true;
        for part in word.split(',').filter(|part| !part.is_empty()) {
            match urls.last_mut() {
                Some(last) if !is_first && !part.contains("://") => *last += &format!(",{part}"),
                _ => urls.push(part.to_owned()),
            }
            is_first = false;
        }
    }
    urls
}

fn is_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
}

/// A server: a name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Host {
    /// Reads `host`, `host:port`, `[::1]` and `[::1]:port`.
    pub(crate) fn parse(text: &str, usual_port: u16) -> Result<Self> {
        let bad = || Error::bad_options("a host in the URL must be written as host or host:port");
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, after) = rest.split_once(']').ok_or_else(bad)?;
                let port = after.strip_prefix(':');
                if port.is_none() && !after.is_empty() {
                    return Err(bad());
                }
                (name, port)
            }
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let port = port.map_or(Ok(usual_port), str::parse).map_err(|_| bad())?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(bad());
        }
        Ok(Self { name: name.to_owned(), port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Whether a password with a `/` or a `?` in it may have been cut in two, so that its end would be taken for something
/// that may be printed.
fn may_be_torn(scheme: &str, authority: Option<&str>, path: &str, query: &str) -> bool {
    if matches!(scheme, "file" | "memory") {
        return false;
    }
    let Some(authority) = authority else { return path.contains('@') };
    // What looks like a host and a port may be a user and the beginning of a password.
    let may_be_a_user = authority.contains(':') && !authority.contains('@');
    // In a parameter whose value is free text, an @ is nothing special.
    let is_text = |pair: &&str| {
        let name = pair.split_once('=').map_or("", |(name, _)| name).to_ascii_lowercase();
        ["prefix", "servers", "ca", "cert", "key"].contains(&&*name) || name.contains("password")
    };
    let mut others = query.split('&').filter(|pair| !is_text(pair));
    may_be_a_user && (path.contains('@') || others.any(|pair| pair.contains('@')))
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn decoded(text: &str) -> Result<String> {
    let bad =
        || Error::bad_options("a % in the URL is not followed by two hexadecimal digits of UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2).ok_or_else(bad)?;
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_parts() {
        let url = Url::parse("file:///var/lib/my%20app/locks").unwrap();
        assert_eq!((url.scheme.as_str(), url.path.as_str()), ("file", "/var/lib/my app/locks"));
        assert_eq!(url.authority.as_deref(), Some(""));
        let url = Url::parse("memory:shared").unwrap();
        assert_eq!((url.authority, url.path.as_str()), (None, "shared"));
    }

    #[test]
    fn hosts_and_credentials_stand_before_the_path() {
        let url = Url::parse("redis://me:s%40crt@a,b:7,[::1]:8,[::2]/3?x=1").unwrap();
        let hosts: Vec<_> = url.hosts(6).unwrap().iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["a:6", "b:7", "[::1]:8", "[::2]:6"]);
        let (user, password) = url.credentials().unwrap();
        assert_eq!((user.as_deref(), password), (Some("me"), Some(Secret("s@crt".into()))));
        let url = Url::parse("redis://:canary@host").unwrap();
        assert_eq!(url.credentials().unwrap().0, None);
        assert!(!format!("{:?}", url.credentials().unwrap()).contains("canary"));
        for bad in ["", ":1", "a:b", "a:99999", "[::1", "[::1]x", "a b"] {
            assert!(Host::parse(bad, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_see_no_secret() {
        for (url, safe) in [
            ("redis://me:canary@a,b:7/3?x=1", "redis://a,b:7/3?x=1"),
            ("redis://me@a", "redis://a"),
            ("REDIS://:can@canary@a", "REDIS://a"),
            ("redis://sp:can canary#@a", "redis://a"),
            ("redis+sentinel://h:1/m?sentinel-password=canary", "redis+sentinel://h:1/m"),
            ("redis://h?a=1&Sentinel%2DPassWord=c@n&b=2", "redis://h?a=1&b=2"),
            (
                "redlock://?servers=redis://:p1@h1,redis://:p,2@h2,redis+sentinel://h3,h4/m?sentinel-password%3Dp&prefix=x",
                "redlock://?servers=redis://h1,redis://h2,redis+sentinel://h3,h4/m&prefix=x",
            ),
            (
                "redlock:?servers=redis%3A%2F%2F%3Acanary%40h1%20redis://h2",
                "redlock:?servers=redis://h1,redis://h2",
            ),
            ("redis://%zz:canary@h/%zz", "redis:…"),
            ("redis://app:2024?canary@h:6379/0", "redis:…"),
            ("redis://app:2024?x=canary@h", "redis:…"),
            ("redis://app:12/canary@h", "redis:…"),
            ("redis+sentinel://app:17/ca@nary@h", "redis+sentinel:…"),
            ("redis:app:canary@h", "redis:…"),
            ("canary", "…"),
            ("can ary:x", "…"),
        ] {
            assert_eq!(without_secrets(url), safe);
        }
    }

    #[test]
    fn what_is_no_secret_is_seen_as_it_is() {
        for url in [
            "file:///var/lib",
            "file:///tmp/a@b",
            "file:///tmp/a%40b c",
            "memory:x@y",
            "redis://h?prefix=x@y",
            "redis://h/0?prefix=x@y&",
            "redlock://a,b,c",
            "redlock:?servers=redis://a%20redis://b,redis%3A%2F%2Fc&prefix=x@y",
            "redis+sentinel://h/name@x",
            "redis://h?",
        ] {
            assert_eq!(without_secrets(url), url);
        }
    }

    #[test]
    fn parameters_are_taken_one_by_one() {
        let mut url = Url::parse("redis://h?dialect=plain&n=x").unwrap();
        assert_eq!(url.take("dialect").as_deref(), Some("plain"));
        assert_eq!(url.take("dialect"), None);
        assert!(url.take_number("n").is_err());
        assert!(url.no_more_parameters().is_ok());
    }

    #[test]
    fn what_cannot_be_meant_is_an_error_without_secrets() {
        for text in
            ["", "no scheme", "://x", "file:///%zz", "file:///%f", "file:///%ff", "a:b?x=1&x=2"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        let error = Url::parse("redis://app:2024?canary@h:6379/0").unwrap_err().to_string();
        assert!(error.contains("%3F") && !error.contains("canary"), "{error}");
        let url = Url::parse("redis://me:canary@host?password=canary").unwrap();
        let error = url.no_more_parameters().unwrap_err();
        assert!(
            error.to_string().contains("\"password\"") && !error.to_string().contains("canary")
        );
        assert!(!format!("{url:?}").contains("canary"));
    }
}
