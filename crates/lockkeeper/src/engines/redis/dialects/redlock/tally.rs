//! What the answers of several servers come to.

use std::time::Duration;

use crate::engine::error::{Error, ErrorKind, Result};

/// How many servers there are, and how many of them decide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quorum {
    pub(super) n_servers: usize,
    pub(super) majority: usize,
}

/// What a server says to one who asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    /// It is the claim's now, with fence numbers up to this one.
    Granted(u64),
    /// The same, and it was before.
    Kept(u64),
    /// Somebody else has it, for so long if that is known.
    Busy(Option<Duration>),
}

/// What many votes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    No,
    NoQuorum,
}

impl Quorum {
    pub(super) fn of(n_servers: usize) -> Self {
        Self { n_servers, majority: n_servers / 2 + 1 }
    }

    /// Whether a lock was won, as soon as that is known.
    ///
    /// A split vote is busy too: somebody else has, or had, a part of the servers.
    pub(super) fn won(self, votes: &[Option<Result<Vote>>]) -> Option<Verdict> {
        let count = Self::count(votes, |vote| !matches!(vote, Vote::Busy(_)));
        if count.yes >= self.majority {
            Some(Verdict::Yes)
        } else if count.yes + count.missing >= self.majority {
            None
        } else if count.no > 0 && count.yes + count.no >= self.majority {
            Some(Verdict::No)
        } else {
            self.no_quorum(&count)
        }
    }

    /// Whether a majority said yes, a majority can no more, or too few answered.
    pub(super) fn agreed(self, answers: &[Option<Result<bool>>]) -> Option<Verdict> {
        let count = Self::count(answers, |yes| *yes);
        if count.yes >= self.majority {
            Some(Verdict::Yes)
        } else if count.no > self.n_servers - self.majority {
            Some(Verdict::No)
        } else {
            self.no_quorum(&count)
        }
    }

    /// Whether a majority answered at all, or too few did.
    pub(super) fn confirmed<T>(self, answers: &[Option<Result<T>>]) -> Option<Verdict> {
        let count = Self::count(answers, |_| true);
        if count.yes >= self.majority { Some(Verdict::Yes) } else { self.no_quorum(&count) }
    }

    fn no_quorum(self, count: &Count) -> Option<Verdict> {
        let is_known = count.missing == 0 || count.failed > self.n_servers - self.majority;
        is_known.then_some(Verdict::NoQuorum)
    }

    fn count<T>(answers: &[Option<Result<T>>], is_yes: impl Fn(&T) -> bool) -> Count {
        let mut count = Count::default();
        for answer in answers {
            match answer {
                Some(Ok(answer)) if is_yes(answer) => count.yes += 1,
                Some(Ok(_)) => count.no += 1,
                Some(Err(_)) => count.failed += 1,
                None => count.missing += 1,
            }
        }
        count
    }

    /// The error when too few servers answered; where asking again would not help, what they said.
    pub(super) fn error<'a, T: 'a>(
        self,
        names: impl Iterator<Item = &'a str>,
        answers: &[Option<Result<T>>],
    ) -> Error {
        let failures = || answers.iter().filter_map(|answer| answer.as_ref()?.as_ref().err());
        let is_final = |error: &&Error| error.kind() != ErrorKind::Unreachable;
        if failures().filter(is_final).count() > self.n_servers - self.majority
            && let Some(error) = failures().find(is_final)
        {
            return error.echo();
        }
        let mut message = format!(
            "{} of {} servers gave no answer, and {} are needed",
            failures().count(),
            self.n_servers,
            self.majority
        );
        for (name, answer) in names.zip(answers) {
            if let Some(Err(error)) = answer {
                message += &format!("; {name}: {}", error.echo());
            }
        }
        Error::new(ErrorKind::NoQuorum, message)
    }
}

#[derive(Debug, Default)]
struct Count {
    yes: usize,
    no: usize,
    failed: usize,
    missing: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+` granted, `-` busy, `!` failed, `.` not answered yet.
    fn votes(text: &str) -> Vec<Option<Result<Vote>>> {
        let vote = |c| match c {
            '+' => Some(Ok(Vote::Granted(1))),
            '-' => Some(Ok(Vote::Busy(None))),
            '!' => Some(Err(Error::unreachable("gone", "cut"))),
            _ => None,
        };
        text.chars().map(vote).collect()
    }

    #[test]
    fn a_majority_decides_as_soon_as_it_can() {
        for (text, verdict) in [
            ("+++..", Some(Verdict::Yes)),
            ("+++-!", Some(Verdict::Yes)),
            ("++...", None),
            ("++--.", None),
            ("++--!", Some(Verdict::No)),
            ("---..", Some(Verdict::No)),
            ("++---", Some(Verdict::No)),
            ("+-!!.", None),
            ("+-!!!", Some(Verdict::NoQuorum)),
            ("!!!..", Some(Verdict::NoQuorum)),
            ("++!!!", Some(Verdict::NoQuorum)),
            ("++-!!", Some(Verdict::No)),
            ("-!!..", None),
            (".....", None),
        ] {
            assert_eq!(Quorum::of(5).won(&votes(text)), verdict, "{text}");
        }
    }

    #[test]
    fn every_vote_that_is_whole_has_a_verdict() {
        for number in 0..3_u32.pow(5) {
            let digit = |i| number / 3_u32.pow(i) % 3;
            let text: String = (0..5).map(|i| ['+', '-', '!'][digit(i) as usize]).collect();
            assert!(Quorum::of(5).won(&votes(&text)).is_some(), "{text}");
            let answers: Vec<_> = votes(&text)
                .into_iter()
                .map(|vote| vote.map(|vote| vote.map(|vote| vote == Vote::Granted(1))))
                .collect();
            assert!(Quorum::of(5).agreed(&answers).is_some(), "{text}");
        }
    }

    #[test]
    fn what_most_refuse_is_no_question_of_numbers() {
        let names = ["a", "b", "c"];
        let error = Quorum::of(3).error(names.into_iter(), &votes("+!!"));
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        assert!(error.to_string().contains("2 of 3") && error.to_string().contains("b: gone"));
        let refused = || Some(Err(Error::refused("no")));
        let answers: [Option<Result<Vote>>; 3] = [refused(), refused(), None];
        assert_eq!(Quorum::of(3).error(names.into_iter(), &answers).kind(), ErrorKind::Refused);
    }
}
