//! How a proof can end otherwise than well.

use std::fmt::Display;

/// The end of a proof.
pub(crate) type Outcome<T = ()> = Result<T, Trouble>;

#[derive(Debug)]
pub(crate) enum Trouble {
    /// A promise was broken.
    Violated(String),
    /// The proof could not be carried out.
    Failed(String),
}

impl Trouble {
    /// For what must work for the promise to be kept: an error there breaks it.
    pub(crate) fn violated(doing: impl Display) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Violated(format!("{doing}: {error}"))
    }
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Ends the proof as violated, with this text, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::trouble::Trouble::Violated(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;
