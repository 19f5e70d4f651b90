//! Refuses a server that is listed twice where distinct servers are needed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::check;
use crate::{
    engine::error::{Error, Result},
    tools::sync::locked,
};

/// One of several places, each of which needs a server of its own.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The place at which each server was met, by the server's run id.
    met: Arc<Mutex<HashMap<String, usize>>>,
    number: usize,
}

impl Place {
    /// Makes this many places.
    pub(crate) fn row(n_places: usize) -> Vec<Self> {
        let met = Arc::default();
        (0..n_places).map(|number| Self { met: Arc::clone(&met), number }).collect()
    }

    /// Refuses a server that was met at another place.
    pub(crate) fn take(&self, info: &str) -> Result<()> {
        let Some(name) = check::field(info, "run_id") else { return Ok(()) };
        let number = *locked(&self.met).entry(name.to_owned()).or_insert(self.number);
        if number == self.number {
            return Ok(());
        }
        let (one, other) = (number.min(self.number) + 1, number.max(self.number) + 1);
        Err(Error::refused(format!(
            "the servers number {one} and {other} in the URL are one and the same; name each of \
             them once"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_place() {
        let places = Place::row(3);
        assert!(places[0].take("run_id:a\r\n").is_ok());
        assert!(places[1].take("run_id:b\r\n").is_ok());
        // A new connection to the same server, and one after a restart.
        assert!(places[0].take("run_id:a\r\n").is_ok());
        assert!(places[0].take("run_id:c\r\n").is_ok());
        let error = places[2].take("run_id:b\r\n").unwrap_err().to_string();
        assert!(error.contains("2 and 3"), "{error}");
    }
}
