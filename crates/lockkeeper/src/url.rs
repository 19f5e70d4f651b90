//! Reads the URLs that name an engine.

use std::fmt;

use crate::error::{Error, Result};

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
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
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
    fn what_cannot_be_meant_is_an_error_without_secrets() {
        for text in
            ["", "no scheme", "://x", "file:///%zz", "file:///%f", "file:///%ff", "a:b?x=1&x=2"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        let url = Url::parse("redis://me:canary@host?password=canary").unwrap();
        let error = url.no_more_parameters().unwrap_err();
        assert!(
            error.to_string().contains("\"password\"") && !error.to_string().contains("canary")
        );
        assert!(!format!("{url:?}").contains("canary"));
    }
}
