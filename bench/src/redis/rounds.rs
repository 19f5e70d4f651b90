//! Measures rows side by side: every round runs all of them, in an order of its own.

use std::time::Duration;

use super::{
    judge::{Demand, judge},
    talk::{Keys, Request},
    team::{Language, Sample, Team},
};
use crate::{
    Result,
    table::{Order, Spread, Verdict, spread},
};

/// A row of a table: what runs, where and with how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// What the worker calls it.
    pub(crate) variant: &'static str,
    pub(crate) n_processes: usize,
}

/// A table, with the base as its first row.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) keys: Keys,
    /// In each process.
    pub(crate) n_contenders: usize,
    pub(crate) window: Duration,
    pub(crate) n_rounds: usize,
    pub(crate) speed: Measure,
    /// What is shown beside the speed.
    pub(crate) also: Vec<Measure>,
    pub(crate) rows: Vec<Row>,
    pub(crate) demands: Vec<Demand>,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    P50,
    Cycles,
    HandOvers,
    Unfairness,
    ServerCpu,
    ClientCpu,
}

impl Measure {
    fn title(self) -> &'static str {
        match self {
            Self::P50 => "p50 of a cycle, us",
            Self::Cycles => "cycles a second",
            Self::HandOvers => "hand-overs a second",
            Self::Unfairness => "luckiest / unluckiest",
            Self::ServerCpu => "server CPU, us a cycle",
            Self::ClientCpu => "client CPU, us a cycle",
        }
    }

    pub(super) fn of(self, sample: &Sample) -> f64 {
        let answer = &sample.answer;
        let (n_cycles, took_us) = (answer.n_cycles as f64, answer.took_us as f64);
        match self {
            Self::P50 => answer.p50_ns as f64 / 1e3,
            Self::Cycles => n_cycles / took_us * 1e6,
            Self::HandOvers => answer.n_hand_overs as f64 / took_us * 1e6,
            Self::Unfairness => answer.most as f64 / answer.least as f64,
            Self::ServerCpu => sample.server_us / n_cycles,
            Self::ClientCpu => sample.client_us / n_cycles,
        }
    }

    /// One as a multiple of the base; of times, how many times as fast.
    fn ratio(self, base: &Sample, one: &Sample) -> f64 {
        match self {
            Self::P50 => self.of(base) / self.of(one),
            _ => self.of(one) / self.of(base),
        }
    }

    /// What small figures need to be told apart.
    fn digits(self, figure: f64) -> usize {
        match self {
            Self::Cycles | Self::HandOvers => 0,
            _ if figure >= 100.0 => 0,
            Self::Unfairness => 2,
            _ => 1,
        }
    }
}

/// What was measured of one row, round by round.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Sample>,
}

impl Samples {
    /// How this compares to the base, from what the two did in the same round.
    pub(super) fn ratio(&self, measure: Measure, base: &Self) -> Spread {
        let pairs = base.rounds.iter().zip(&self.rounds);
        spread(pairs.map(|(base, one)| measure.ratio(base, one)).collect())
    }

    pub(super) fn spread(&self, measure: Measure) -> Spread {
        spread(self.rounds.iter().map(|sample| measure.of(sample)).collect())
    }
}

impl Table {
    /// Measures and prints.
    pub(crate) fn measure(&self, order: &Order, team: &mut Team) -> Result<Verdict> {
        let base = self.rows.first().ok_or("a table needs a base")?;
        // The base is what all others are compared with.
        let is_wanted = |name: &str| name == base.name || order.wants(name);
        println!("\n### {}\n", self.title);
        let mut rows = Vec::new();
        for row in self.rows.iter().filter(|row| is_wanted(row.name)) {
            match self.run(row, row.language.warm_up(), team) {
                Ok(_) => rows.push(*row),
                Err(error) if row.name == base.name => return Err(error),
                Err(error) => println!("Not run: {}: {error}\n", row.name),
            }
        }
        let n_rounds = order.n_rounds.unwrap_or(self.n_rounds);
        let samples = self.rounds(&rows, n_rounds, team)?;
        self.print(n_rounds, &samples);
        Ok(judge(&samples, self.demands.iter().filter(|demand| demand.is_about(is_wanted))))
    }

    fn run(&self, row: &Row, window: Duration, team: &mut Team) -> Result<Sample> {
        let request = Request {
            variant: row.variant.into(),
            keys: self.keys,
            n_contenders: self.n_contenders,
            window,
        };
        team.run(row.language, row.n_processes, &request)
    }

    fn rounds(&self, rows: &[Row], n_rounds: usize, team: &mut Team) -> Result<Vec<Samples>> {
        let mut samples: Vec<Samples> =
            rows.iter().map(|row| Samples { name: row.name, rounds: Vec::new() }).collect();
        let mut sequence: Vec<usize> = (0..rows.len()).collect();
        for _ in 0..n_rounds {
            fastrand::shuffle(&mut sequence);
            for &at in &sequence {
                samples[at].rounds.push(self.run(&rows[at], self.window, team)?);
            }
        }
        Ok(samples)
    }

    fn print(&self, n_rounds: usize, samples: &[Samples]) {
        let window = self.window.as_millis();
        println!(
            "Medians of {n_rounds} interleaved rounds of {window} ms; in brackets where the middle half lies.\n"
        );
        let mut head =
            format!("| variant | {} | speed, as a multiple of the first |", self.speed.title());
        for measure in &self.also {
            head.push_str(&format!(" {} |", measure.title()));
        }
        println!("{head}\n|---|---|{}", "---|".repeat(1 + self.also.len()));
        for one in samples {
            let ratio = one.ratio(self.speed, &samples[0]);
            let mut line = format!(
                "| {} | {} | {:.2} [{:.2}..{:.2}] |",
                one.name,
                shown(self.speed, &one.spread(self.speed)),
                ratio.median,
                ratio.low,
                ratio.high
            );
            for measure in &self.also {
                line.push_str(&format!(" {} |", shown(*measure, &one.spread(*measure))));
            }
            println!("{line}");
        }
        println!();
    }
}

fn shown(measure: Measure, spread: &Spread) -> String {
    let Spread { low, median, high } = spread;
    let digits = measure.digits(*median);
    // Somebody got nothing at all.
    if median.is_infinite() || median.is_nan() {
        return "–".into();
    }
    format!("{median:.digits$} [{low:.digits$}..{high:.digits$}]")
}
