//! What came out: one row for each check, one column for each client.

use crate::{Result, checks::CHECKS, client::Client};

#[derive(Default)]
pub(crate) struct Table {
    outcomes: Vec<Outcome>,
}

struct Outcome {
    client: &'static str,
    check: &'static str,
    has_passed: bool,
}

impl Table {
    /// Notes what came out, and says it at once: a whole run takes minutes.
    pub(crate) fn add(&mut self, client: &'static str, check: &'static str, outcome: Result<()>) {
        match &outcome {
            Ok(()) => eprintln!("{client}: {check}: passed"),
            Err(error) => eprintln!("{client}: {check}: FAILED: {error}"),
        }
        self.outcomes.push(Outcome { client, check, has_passed: outcome.is_ok() });
    }

    pub(crate) fn n_failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.has_passed).count()
    }

    pub(crate) fn print(&self, clients: &[&Client]) {
        let names: Vec<_> = clients.iter().map(|client| client.name).collect();
        println!("\n| check | {} |", names.join(" | "));
        println!("|---|{}", "---|".repeat(names.len()));
        for check in &CHECKS {
            let cells: Vec<_> = names.iter().map(|client| self.cell(client, check.name)).collect();
            println!("| {} | {} |", check.name, cells.join(" | "));
        }
        println!();
        for client in clients.iter().filter(|client| !client.but.is_empty()) {
            println!("{}: {}", client.name, client.but);
        }
        let n_failed = self.n_failed();
        println!("\n{} passed, {n_failed} failed", self.outcomes.len() - n_failed);
    }

    fn cell(&self, client: &str, check: &str) -> &'static str {
        let is_it = |outcome: &&Outcome| outcome.client == client && outcome.check == check;
        match self.outcomes.iter().find(is_it) {
            Some(outcome) if outcome.has_passed => "yes",
            Some(_) => "**no**",
            None => "-",
        }
    }
}
