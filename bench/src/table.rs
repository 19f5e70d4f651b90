//! Measures variants side by side: every round runs all of them, in an order of its own.

use std::{process::ExitCode, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use crate::Result;

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Without one, as many as suit the length of a run.
    pub(crate) n_rounds: Option<usize>,
    /// A part of the names of the variants to run beside the base; without one, all.
    pub(crate) only: Option<String>,
}

impl Order {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase()))
    }
}

/// While it lives, this thread and those it starts stay on one core: with one task there is no
/// use for a second one, and moving between them is most of the noise.
#[derive(Debug)]
pub(crate) struct Pin {
    before: CpuSet,
}

impl Pin {
    pub(crate) fn new() -> Result<Self> {
        let before = sched_getaffinity(Pid::from_raw(0))?;
        let first = (0..CpuSet::count()).find(|core| before.is_set(*core) == Ok(true));
        let mut core = CpuSet::new();
        core.set(first.ok_or("there is no core to run on")?)?;
        sched_setaffinity(Pid::from_raw(0), &core)?;
        Ok(Self { before })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // The cores were ours before, so this cannot fail in any way that matters here.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

/// One line of a table: runs so many cycles and answers how long they took.
pub(crate) struct Variant<'a> {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnMut(u32) -> Result<Duration> + 'a>,
}

impl<'a> Variant<'a> {
    pub(crate) fn new(name: &'static str, run: impl FnMut(u32) -> Result<Duration> + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// The least speed of a variant, as a multiple of another's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) variant: &'static str,
    pub(crate) against: &'static str,
    pub(crate) at_least: f64,
}

/// Whether all demands were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
}

impl Verdict {
    pub(crate) fn and(self, other: Self) -> Self {
        if self == Self::Met { other } else { self }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(u8::from(verdict == Verdict::Missed))
    }
}

/// How many cycles make one run.
#[derive(Debug)]
pub(crate) enum Cycles {
    /// As many as fit into this time. Shorter than what the system gives a thread before another
    /// has its turn, most runs are undisturbed on a busy machine too.
    For(Duration),
    Fixed(u32),
}

/// The nanoseconds per cycle of one variant, round by round.
#[derive(Debug)]
struct Times {
    name: &'static str,
    rounds: Vec<f64>,
}

/// Measures and prints; the first variant is the base.
pub(crate) fn measure(
    title: &str,
    order: &Order,
    cycles: &Cycles,
    mut variants: Vec<Variant<'_>>,
    demands: &[Demand],
) -> Result<Verdict> {
    let n_rounds = order.n_rounds.unwrap_or(match cycles {
        Cycles::For(_) => 201,
        Cycles::Fixed(_) => 15,
    });
    let base = variants.first().ok_or("a table needs a base")?.name;
    let is_wanted = |name: &str| name == base || order.wants(name);
    variants.retain(|variant| is_wanted(variant.name));
    let mut counts = Vec::new();
    for variant in &mut variants {
        counts.push(count(variant, cycles)?);
    }
    let mut times: Vec<Times> =
        variants.iter().map(|variant| Times { name: variant.name, rounds: Vec::new() }).collect();
    let mut sequence: Vec<usize> = (0..variants.len()).collect();
    for _ in 0..n_rounds {
        fastrand::shuffle(&mut sequence);
        for &at in &sequence {
            let taken = (variants[at].run)(counts[at])?;
            times[at].rounds.push(taken.as_secs_f64() * 1e9 / f64::from(counts[at]));
        }
    }
    print_table(title, n_rounds, &times);
    let wanted =
        demands.iter().filter(|demand| is_wanted(demand.variant) && is_wanted(demand.against));
    Ok(judge(&times, wanted))
}

/// Runs the variant a little, which also warms it up, and finds how many cycles a run takes.
fn count(variant: &mut Variant<'_>, cycles: &Cycles) -> Result<u32> {
    const N_TRIALS: usize = 20;
    const N_CYCLES: u32 = 1_000;
    match cycles {
        Cycles::Fixed(n_cycles) => {
            (variant.run)(*n_cycles)?;
            Ok(*n_cycles)
        }
        Cycles::For(time) => {
            let mut least = Duration::MAX;
            for _ in 0..N_TRIALS {
                // The quickest is the one that nobody disturbed.
                least = least.min((variant.run)(N_CYCLES)?);
            }
            Ok((f64::from(N_CYCLES) * time.as_secs_f64() / least.as_secs_f64()) as u32 + 1)
        }
    }
}

fn print_table(title: &str, n_rounds: usize, times: &[Times]) {
    println!("\n### {title}\n");
    println!("Medians of {n_rounds} interleaved rounds; in brackets where the middle half lies.\n");
    println!("| variant | ns per cycle | speed, as a multiple of the first |");
    println!("|---|---|---|");
    for one in times {
        let Spread { low, median, high } = spread(one.rounds.clone());
        let ratio = ratio(&times[0], one);
        println!(
            "| {} | {median:.0} [{low:.0}..{high:.0}] | {:.2} [{:.2}..{:.2}] |",
            one.name, ratio.median, ratio.low, ratio.high
        );
    }
    println!();
}

fn judge<'a>(times: &[Times], demands: impl IntoIterator<Item = &'a Demand>) -> Verdict {
    let named = |name| times.iter().find(|times| times.name == name);
    let mut verdict = Verdict::Met;
    for Demand { variant, against, at_least } in demands {
        // A demand that names no line of the table is a mistake, and must not look like a success.
        let measured =
            named(*variant).zip(named(*against)).map(|(one, base)| ratio(base, one).median);
        let is_met = measured.is_some_and(|measured| measured >= *at_least);
        if !is_met {
            verdict = Verdict::Missed;
        }
        let word = if is_met { "met" } else { "MISSED" };
        let measured = measured.unwrap_or(f64::NAN);
        println!(
            "* {word}: {variant}, {measured:.2} times as fast as {against} (at least {at_least:.2})"
        );
    }
    verdict
}

/// The middle of some figures, and where their middle half lies.
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// How many times as fast as the base, from what the two did in the same round.
fn ratio(base: &Times, one: &Times) -> Spread {
    spread(base.rounds.iter().zip(&one.rounds).map(|(base, one)| base / one).collect())
}

pub(crate) fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let n_values = values.len();
    Spread { low: at(n_values / 4), median: at(n_values / 2), high: at(n_values * 3 / 4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(name: &'static str, rounds: &[f64]) -> Times {
        Times { name, rounds: rounds.to_vec() }
    }

    #[test]
    fn a_ratio_compares_what_ran_in_the_same_round() {
        let ratio = ratio(
            &times("base", &[10.0, 100.0, 30.0, 8.0]),
            &times("one", &[5.0, 50.0, 30.0, 1.0]),
        );
        assert_eq!((ratio.low, ratio.median, ratio.high), (2.0, 2.0, 8.0));
    }

    #[test]
    fn a_demand_is_met_or_missed() {
        let table = [times("base", &[10.0]), times("one", &[20.0])];
        let demand = |variant, at_least| [Demand { variant, against: "base", at_least }];
        assert_eq!(judge(&table, &demand("one", 0.5)), Verdict::Met);
        assert_eq!(judge(&table, &demand("one", 0.51)), Verdict::Missed);
        assert_eq!(judge(&table, &demand("nobody", 0.1)), Verdict::Missed);
    }
}
