//! What was found, for people.

use std::time::Duration;

use super::{judge::Findings, mode::Mode, resource::Taken, tally::Tally};

/// One mode.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) mode: Mode,
    /// Done to processes and connections.
    pub(crate) harmed: Tally,
    pub(crate) server_faults: Tally,
    pub(crate) complaints: Vec<String>,
    pub(crate) findings: Findings,
    pub(crate) taken: Taken,
    /// Of one who came when all was over.
    pub(crate) longest_wait: Duration,
    pub(crate) left: Vec<String>,
}

const HEADINGS: [&str; 13] = [
    "mode",
    "turns",
    "stops",
    "kills",
    "given up",
    "cuts",
    "flushes",
    "server faults",
    "overlaps",
    "fences back",
    "lost",
    "stuck",
    "left",
];

impl Row {
    /// Where there is a fence the resource keeps updates from being lost; elsewhere the lock does.
    fn n_lost(&self) -> u64 {
        match self.mode.has_fence() {
            true => self.taken.n_lost,
            false => self.findings.n_interleaved as u64,
        }
    }

    fn n_fences_back(&self) -> usize {
        self.findings.n_fences_back + self.findings.n_fences_repeated
    }

    /// Which promises were broken.
    pub(crate) fn violation(&self) -> Option<String> {
        let findings = &self.findings;
        let (n_overlaps, n_refused) = match self.mode.is_exclusive() {
            true => (findings.n_overlaps, findings.n_refused),
            false => (0, 0),
        };
        let n_stood_still = self.server_faults.of("slot moves that stood still");
        let counts = [
            (n_overlaps, "overlaps"),
            (n_refused, "holders refused by the resource"),
            (self.n_fences_back(), "fences back or repeated"),
            (self.n_lost() as usize, "updates lost"),
            (findings.n_stuck, "calls stuck"),
            (findings.n_strange, "errors that no fault explains"),
            (n_stood_still, "slot moves that stood still"),
            (self.left.len(), "things left behind"),
            (usize::from(findings.n_turns == 0), "run without a turn"),
        ];
        let broken = counts.iter().filter(|(n, _)| *n > 0);
        let broken: Vec<_> = broken.map(|(n, what)| format!("{n} {what}")).collect();
        (!broken.is_empty()).then(|| format!("{}: {}", self.mode.name(), broken.join(", ")))
    }

    /// All that does not fit into the table.
    pub(crate) fn print_details(&self) {
        let findings = &self.findings;
        println!("  {}: {}", self.mode.name(), self.harmed);
        println!("    servers: {}", self.server_faults);
        println!("    without a guard, or not given back well: {:?}", findings.ends);
        println!(
            "    {} turns, {} writes taken, {} refused though held, longest overlap {:?}, then every \
             key taken within {:?}",
            findings.n_turns,
            self.taken.n_taken,
            findings.n_refused,
            Duration::from_nanos(findings.longest_overlap),
            self.longest_wait,
        );
        let few = |texts: &[String]| texts.iter().take(6).cloned().collect::<Vec<_>>();
        for text in [few(&self.complaints), findings.told.clone(), few(&self.left)].concat() {
            println!("    {text}");
        }
    }

    fn cells(&self) -> [String; 13] {
        let harm = |kind| self.harmed.of(kind).to_string();
        [
            self.mode.name().to_owned(),
            self.findings.n_turns.to_string(),
            harm("stops"),
            harm("kills"),
            harm("calls given up"),
            harm("client kills"),
            harm("script flushes"),
            self.server_faults.total().to_string(),
            self.findings.n_overlaps.to_string(),
            if self.mode.has_fence() { self.n_fences_back().to_string() } else { "-".into() },
            self.n_lost().to_string(),
            self.findings.n_stuck.to_string(),
            self.left.len().to_string(),
        ]
    }
}

pub(crate) fn print(rows: &[Row]) {
    println!();
    let line = |cells: [String; 13]| println!("  | {} |", cells.join(" | "));
    line(HEADINGS.map(str::to_owned));
    line(HEADINGS.map(|_| "---".to_owned()));
    for row in rows {
        line(row.cells());
    }
}
