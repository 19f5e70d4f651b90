//! The rules every engine must keep, as a suite that runs against any of them.
//!
//! Whoever writes an engine gives the suite a [`Lab`]: how to connect to the place under test, and
//! what can be done to it behind a holder's back. Then one test is enough:
//!
//! ```
//! use lockkeeper::{Result, conformance, engine::Engine, engines::memory::Memory};
//!
//! struct Desk(Memory);
//!
//! #[async_trait::async_trait]
//! impl conformance::Lab for Desk {
//!     async fn engine(&self) -> Result<Box<dyn Engine>> {
//!         Ok(Box::new(self.0.clone()))
//!     }
//! }
//!
//! # fn main() { lockkeeper::blocking::block_on(async {
//! let lab = Desk(Memory::default());
//! # if false {
//! conformance::check_all(&lab).await.assert_kept();
//! # }
//! let rule = &conformance::rules()[0];
//! assert_eq!(conformance::check(&lab, rule).await, conformance::Verdict::Kept);
//! # }) }
//! ```
//!
//! Rules that the engine's [`Profile`] does not promise, and rules that need something this lab
//! cannot do, are reported as skipped with the reason, never passed in silence. Time is real, so
//! the suite takes several of the engine's shortest leases (of a second at least over a network). Two suites must not run on one place at
//! once: some rules use keys such as `..` as they are.
//!
//! The suite is not part of the stable API: a rule may be added in any version.

mod contender;
mod lab;
mod report;
mod room;
mod rules;

use std::{pin::Pin, sync::LazyLock};

use self::room::{Finding, Room, Stop};
pub use self::{
    lab::{Ability, Lab, Neighbour, open},
    report::{Report, Verdict},
};
use crate::engine::Profile;

/// One thing that every engine does, or every engine whose profile promises it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, which is a sentence.
    pub name: &'static str,
    /// The same in more words.
    pub says: &'static str,
    applies: fn(&Profile) -> bool,
    run: for<'a> fn(&'a Room<'a>) -> Run<'a>,
}

type Run<'a> = Pin<Box<dyn Future<Output = Finding> + Send + 'a>>;

impl Rule {
    /// Whether an engine with this profile promises to keep it.
    pub fn applies_to(&self, profile: &Profile) -> bool {
        (self.applies)(profile)
    }
}

/// All rules, in the order in which [`check_all`] checks them.
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(rules::all);
    &RULES
}

/// Checks one rule.
pub async fn check(lab: &dyn Lab, rule: &Rule) -> Verdict {
    let room = match Room::open(lab).await {
        Ok(room) => room,
        Err(error) => return Verdict::Broken(format!("the lab cannot connect: {error:?}")),
    };
    if !rule.applies_to(&room.profile) {
        let engine = room.profile.engine;
        return Verdict::Skipped(format!("the profile of {engine} does not promise it"));
    }
    match room.within(room.limit() * 10, "the end of the rule", (rule.run)(&room)).await {
        Ok(Ok(())) => Verdict::Kept,
        Ok(Err(Stop::Broken(why))) | Err(Stop::Broken(why)) => Verdict::Broken(why),
        Ok(Err(Stop::Skipped(why))) | Err(Stop::Skipped(why)) => Verdict::Skipped(why),
    }
}

/// Checks all rules, one after the other.
pub async fn check_all(lab: &dyn Lab) -> Report {
    let mut verdicts = Vec::new();
    for rule in rules() {
        verdicts.push((rule, check(lab, rule).await));
    }
    Report::new(verdicts)
}
