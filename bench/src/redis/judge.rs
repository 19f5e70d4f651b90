//! What is asked of the figures.

use super::rounds::{Measure, Samples};
use crate::table::Verdict;

/// A bound for a figure of one row, absolute or as a multiple of another row's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) row: &'static str,
    pub(crate) measure: Measure,
    pub(crate) against: Option<&'static str>,
    pub(crate) bound: Bound,
    /// What we hope for beyond it; stated, not checked.
    pub(crate) aim: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Demand {
    /// So many times as fast.
    pub(crate) fn faster(
        row: &'static str,
        measure: Measure,
        against: &'static str,
        times: f64,
    ) -> Self {
        Self { row, measure, against: Some(against), bound: Bound::AtLeast(times), aim: None }
    }

    /// At most so many times as much.
    pub(crate) fn within(
        row: &'static str,
        measure: Measure,
        against: &'static str,
        times: f64,
    ) -> Self {
        Self { row, measure, against: Some(against), bound: Bound::AtMost(times), aim: None }
    }

    pub(crate) fn aiming_at(mut self, aim: f64) -> Self {
        self.aim = Some(aim);
        self
    }

    /// Whether all its rows are among these.
    pub(super) fn is_about(&self, is_there: impl Fn(&str) -> bool) -> bool {
        is_there(self.row) && self.against.is_none_or(is_there)
    }

    fn figure(&self, samples: &[Samples]) -> Option<f64> {
        let named = |name| samples.iter().find(|samples| samples.name == name);
        let one = named(self.row)?;
        Some(match self.against {
            Some(against) => one.ratio(self.measure, named(against)?).median,
            None => one.spread(self.measure).median,
        })
    }
}

/// Prints what became of each demand. One that names a row which was not measured is missed: it must
/// not look like a success.
pub(super) fn judge<'a>(samples: &[Samples], demands: impl Iterator<Item = &'a Demand>) -> Verdict {
    let mut verdict = Verdict::Met;
    for demand in demands {
        let figure = demand.figure(samples);
        let (is_met, bound) = match demand.bound {
            Bound::AtLeast(least) => {
                (figure.is_some_and(|figure| figure >= least), format!("at least {least:.2}"))
            }
            Bound::AtMost(most) => {
                (figure.is_some_and(|figure| figure <= most), format!("at most {most:.2}"))
            }
        };
        if !is_met {
            verdict = Verdict::Missed;
        }
        let word = if is_met { "met" } else { "MISSED" };
        let what = match demand.measure {
            Measure::P50 | Measure::Cycles | Measure::HandOvers => "as fast as",
            Measure::ServerCpu => "the server CPU of",
            Measure::ClientCpu => "the client CPU of",
            Measure::Unfairness => "the unfairness of",
        };
        let figure = figure.map_or("unknown".into(), |figure| format!("{figure:.2}"));
        let figure = match demand.against {
            Some(against) => format!("{figure} times {what} {against}"),
            None => format!("luckiest / unluckiest {figure}"),
        };
        let aim = demand.aim.map(|aim| format!(", the aim is {aim:.2}")).unwrap_or_default();
        println!("* {word}: {}, {figure} ({bound}{aim})", demand.row);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::{talk::Answer, team::Sample};

    fn samples(name: &'static str, n_cycles: u64, least: u64) -> Samples {
        let answer = Answer { n_cycles, took_us: 1_000, least, most: 6, ..Answer::default() };
        Samples { name, rounds: vec![Sample { answer, server_us: 50.0, client_us: 100.0 }] }
    }

    fn verdict(demand: Demand) -> Verdict {
        judge(&[samples("base", 10, 6), samples("one", 20, 3)], [demand].iter())
    }

    #[test]
    fn a_demand_is_met_or_missed() {
        let faster = |row, times| verdict(Demand::faster(row, Measure::Cycles, "base", times));
        assert_eq!(faster("one", 2.0), Verdict::Met);
        assert_eq!(faster("one", 2.1), Verdict::Missed);
        let within = |times| verdict(Demand::within("one", Measure::ClientCpu, "base", times));
        assert_eq!(within(0.5), Verdict::Met);
        assert_eq!(within(0.4), Verdict::Missed);
        assert_eq!(faster("nobody", 0.1), Verdict::Missed);
    }

    #[test]
    fn a_bound_may_stand_alone() {
        let fair = |most| Demand {
            row: "one",
            measure: Measure::Unfairness,
            against: None,
            bound: Bound::AtMost(most),
            aim: None,
        };
        assert_eq!(verdict(fair(2.0)), Verdict::Met);
        assert_eq!(verdict(fair(1.9)), Verdict::Missed);
    }
}
