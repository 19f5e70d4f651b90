//! What came of it.

use std::fmt;

use super::Rule;

/// What came of checking one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The engine keeps it.
    Kept,
    /// It does not; the text says what was seen.
    Broken(String),
    /// It was not checked; the text says why.
    Skipped(String),
}

/// What came of checking all rules.
#[derive(Clone, Debug)]
#[must_use = "a report that nobody reads checks nothing"]
pub struct Report {
    verdicts: Vec<(&'static Rule, Verdict)>,
}

impl Report {
    pub(super) fn new(verdicts: Vec<(&'static Rule, Verdict)>) -> Self {
        Self { verdicts }
    }

    /// Every rule with its verdict.
    pub fn verdicts(&self) -> &[(&'static Rule, Verdict)] {
        &self.verdicts
    }

    /// The names of the rules that were broken.
    pub fn broken(&self) -> Vec<&'static str> {
        self.names(|verdict| matches!(verdict, Verdict::Broken(_)))
    }

    /// The names of the rules that were not checked.
    pub fn skipped(&self) -> Vec<&'static str> {
        self.names(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }

    /// Ends the test with the whole report unless every rule was kept or skipped.
    ///
    /// # Panics
    /// When a rule was broken.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.broken().is_empty(), "\n{self}");
    }

    fn names(&self, of: impl Fn(&Verdict) -> bool) -> Vec<&'static str> {
        let these = self.verdicts.iter().filter(|(_, verdict)| of(verdict));
        these.map(|(rule, _)| rule.name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_broken = self.broken().len();
        let n_skipped = self.skipped().len();
        let n_kept = self.verdicts.len() - n_broken - n_skipped;
        writeln!(f, "{n_kept} kept, {n_broken} broken, {n_skipped} skipped")?;
        for (rule, verdict) in &self.verdicts {
            match verdict {
                Verdict::Kept => writeln!(f, "  kept     {}", rule.name)?,
                Verdict::Skipped(why) => writeln!(f, "  skipped  {}: {why}", rule.name)?,
                Verdict::Broken(why) => {
                    writeln!(f, "  BROKEN   {}: {why}", rule.name)?;
                    writeln!(f, "           the rule: {}", rule.says)?;
                }
            }
        }
        Ok(())
    }
}
