//! What is said to a worker and what it answers, one line each; workers in other languages say the
//! same.

use std::{fmt, str::FromStr, time::Duration};

use crate::Result;

/// Whether the contenders of a run are in each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Keys {
    /// A key each.
    Distinct,
    /// One key for all.
    Same,
}

/// One run: `VARIANT KEYS CONTENDERS MILLISECONDS`.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) variant: String,
    pub(crate) keys: Keys,
    pub(crate) n_contenders: usize,
    pub(crate) window: Duration,
}

impl Request {
    /// The key of one contender; no two variants share one.
    pub(crate) fn key(&self, number: usize) -> String {
        match self.keys {
            Keys::Distinct => format!("{}:{number}", self.variant),
            Keys::Same => self.variant.clone(),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = match self.keys {
            Keys::Distinct => "distinct",
            Keys::Same => "same",
        };
        write!(f, "{} {keys} {} {}", self.variant, self.n_contenders, self.window.as_millis())
    }
}

impl FromStr for Request {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [variant, keys, n_contenders, window] = words[..] else {
            return Err(format!("{line:?} is no request").into());
        };
        let keys = match keys {
            "distinct" => Keys::Distinct,
            "same" => Keys::Same,
            other => return Err(format!("{other:?}: distinct or same").into()),
        };
        let window = Duration::from_millis(window.parse()?);
        Ok(Self { variant: variant.into(), keys, n_contenders: n_contenders.parse()?, window })
    }
}

/// What came of a run: `CYCLES MICROSECONDS P50 HANDOVERS LEAST MOST`, or a line that begins with
/// `error`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) n_cycles: u64,
    pub(crate) took_us: u64,
    /// Half of the cycles were shorter, in nanoseconds; 0 with more than one contender.
    pub(crate) p50_ns: u64,
    /// How often the lock went to somebody else than before.
    pub(crate) n_hand_overs: u64,
    /// The cycles of the unluckiest contender.
    pub(crate) least: u64,
    /// The cycles of the luckiest.
    pub(crate) most: u64,
}

impl Answer {
    /// What two processes did side by side.
    pub(crate) fn beside(self, other: Self) -> Self {
        Self {
            n_cycles: self.n_cycles + other.n_cycles,
            took_us: self.took_us.max(other.took_us),
            p50_ns: 0,
            n_hand_overs: self.n_hand_overs + other.n_hand_overs,
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_cycles, took_us, p50_ns, n_hand_overs, least, most } = self;
        write!(f, "{n_cycles} {took_us} {p50_ns} {n_hand_overs} {least} {most}")
    }
}

impl FromStr for Answer {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(line: &str) -> Result<Self> {
        let numbers: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| line)?;
        let [n_cycles, took_us, p50_ns, n_hand_overs, least, most] = numbers[..] else {
            return Err(format!("{line:?} is no answer").into());
        };
        Ok(Self { n_cycles, took_us, p50_ns, n_hand_overs, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let request: Request = "ours same 64 800".parse().unwrap();
        assert_eq!(request.to_string(), "ours same 64 800");
        assert_eq!((request.key(1), request.key(2)), ("ours".into(), "ours".into()));
        let answer: Answer = "10 20 0 5 1 4".parse().unwrap();
        assert_eq!(answer.to_string(), "10 20 0 5 1 4");
        assert_eq!((answer.n_hand_overs, answer.least, answer.most), (5, 1, 4));
    }

    #[test]
    fn an_error_is_no_answer() {
        assert_eq!("error: gone".parse::<Answer>().unwrap_err().to_string(), "error: gone");
        assert!("1 2 3".parse::<Answer>().is_err());
        assert!("ours both 64 800".parse::<Request>().is_err());
    }
}
