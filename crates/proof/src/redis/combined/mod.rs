//! Faults combined: 24 processes on three keys with a ttl of one second, while processes are stopped
//! for longer than that, killed and replaced, calls given up half-way, connections cut, scripts
//! forgotten, and servers paused, killed, replaced, moved or misled about the time.

pub(crate) mod contestant;
mod crowd;
mod holds;
mod judge;
#[cfg(test)]
mod judge_tests;
pub(crate) mod mode;
mod plague;
mod record;
mod resource;
mod table;
mod tally;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use self::{
    crowd::{Crowd, send_latecomer},
    judge::{Rules, judge},
    mode::{Mode, Servers},
    plague::Plague,
    resource::Resource,
    table::Row,
};
use crate::{
    settings::Settings,
    trouble::{Outcome, Trouble},
};

const N_KEYS: u32 = 3;
const TTL: Duration = Duration::from_secs(1);

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let length = Duration::from_secs(settings.count(180, 15));
    let mut rows = Vec::new();
    for (number, mode) in Mode::ALL.into_iter().enumerate() {
        if settings.mode.as_deref().is_none_or(|name| name == mode.name()) {
            let row = torture(mode, settings, number as u64, length)?;
            row.print_details();
            rows.push(row);
        }
    }
    table::print(&rows);
    let broken: Vec<_> = rows.iter().filter_map(Row::violation).collect();
    if broken.is_empty() { Ok(()) } else { Err(Trouble::Violated(broken.join("; "))) }
}

fn torture(mode: Mode, settings: &Settings, part: u64, length: Duration) -> Outcome<Row> {
    let (mut servers, resource) = (Servers::start(mode)?, Resource::start()?);
    let (url, ports) = (servers.url(mode), servers.ports());
    // After a split, a turn that is passed on in a process tells nothing of when it was granted.
    let shares = mode.is_exclusive();
    let mut crowd = Crowd::gather(&url, resource.port(), shares, settings.random(100 + part))?;
    let is_over = AtomicBool::new(false);
    let mut plague = Plague::new(mode, settings.random(200 + part), &is_over);
    let until = Instant::now() + length;
    let tormented = thread::scope(|scope| {
        let haunting = scope.spawn(|| plague.haunt(&mut servers));
        let tormented = crowd.torment(&ports, until);
        is_over.store(true, Ordering::SeqCst);
        let healed = haunting.join();
        healed.map_err(|_| Trouble::Failed("the thread of server faults panicked".into()))??;
        tormented
    });
    tormented?;
    let (mut harmed, server_faults) = (crowd.tally.clone(), plague.tally);
    let (workers, mut left) = crowd.disperse()?;
    let longest_wait = send_latecomer(&url)?;
    left.extend(what_stays(&servers)?);
    let ttl = u64::try_from(TTL.as_nanos())?;
    let rules = Rules { ttl, is_exclusive: mode.is_exclusive(), has_fence: mode.has_fence() };
    let mut findings = judge(&workers, rules);
    let longest_wait = longest_wait.unwrap_or_else(|why| {
        findings.n_stuck += 1;
        findings.told.push(why);
        Duration::MAX
    });
    for _ in 0..findings.ends.get("Dropped").copied().unwrap_or(0) {
        harmed.count("calls given up");
    }
    Ok(Row {
        mode,
        harmed,
        server_faults,
        complaints: plague.complaints,
        findings,
        taken: resource.taken()?,
        longest_wait,
        left,
    })
}

/// What is still there when everything that ends by itself has had the time to.
fn what_stays(servers: &Servers) -> Outcome<Vec<String>> {
    let give_up_at = Instant::now() + Duration::from_secs(30);
    loop {
        let left = servers.leftovers()?;
        if left.is_empty() || Instant::now() > give_up_at {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(200));
    }
}
