//! Durations written as text, read while the user's crate compiles.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

const TTL_MINIMUM: Duration = Duration::from_millis(100);
const TTL_MAXIMUM: Duration = Duration::from_secs(24 * 60 * 60);

/// A duration such as `"5s"`, `"250ms"` or `"1m 30s"`, longer than nothing.
pub(crate) fn read(literal: &LitStr) -> Result<Duration> {
    let text = literal.value();
    let fault = |why: &str| {
        let message =
            format!("{text:?} is not a duration: {why}; write one like \"5s\" or \"1m 30s\"");
        Error::new(literal.span(), message)
    };
    match humantime::parse_duration(&text) {
        Ok(Duration::ZERO) => Err(fault("it must be longer than nothing")),
        Ok(duration) => Ok(duration),
        Err(error) => Err(fault(&error.to_string())),
    }
}

/// A duration that the engines take as a lease.
pub(crate) fn read_ttl(literal: &LitStr) -> Result<Duration> {
    let ttl = read(literal)?;
    if (TTL_MINIMUM..=TTL_MAXIMUM).contains(&ttl) {
        return Ok(ttl);
    }
    let message =
        format!("a ttl of {:?} cannot be kept; it is \"100ms\" to \"24h\"", literal.value());
    Err(Error::new(literal.span(), message))
}

/// The expression that makes this duration at run time.
pub(crate) fn tokens(duration: Duration) -> TokenStream {
    let (seconds, nanoseconds) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanoseconds))
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    fn literal(text: &str) -> LitStr {
        LitStr::new(text, Span::call_site())
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [("5s", 5_000), ("250ms", 250), ("1m 30s", 90_000), ("2h", 7_200_000)] {
            assert_eq!(read(&literal(text)).unwrap(), Duration::from_millis(ms), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_named_in_the_message() {
        for text in ["", "5", "five seconds", "-5s", "5 parsecs", "0s", "99999999999999999999s"] {
            let message = read(&literal(text)).unwrap_err().to_string();
            assert!(message.contains(&format!("{text:?}")), "{message}");
        }
    }

    #[test]
    fn a_ttl_is_at_least_100_ms_and_at_most_a_day() {
        for (text, fits) in [("99ms", false), ("100ms", true), ("24h", true), ("24h 1ns", false)] {
            assert_eq!(read_ttl(&literal(text)).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn tokens_keep_the_fraction() {
        let tokens = tokens(Duration::from_millis(1_250)).to_string();
        assert!(tokens.contains("1u64") && tokens.contains("250000000u32"), "{tokens}");
    }
}
