//! The rules, by theme. Each file begins with the table of its rules.

mod asking;
mod fences;
mod keeping;
mod keys;
mod looking;
mod loss;
mod processes;
mod quick;
mod releasing;
mod torture;
mod waiting;
mod whole;

use super::Rule;
use crate::engine::{Answers, Expiry, Fairness, Fencing, Profile, Reach, Tells, Wake};

pub(super) fn all() -> Vec<Rule> {
    [
        asking::RULES,
        releasing::RULES,
        quick::RULES,
        keeping::RULES,
        waiting::RULES,
        fences::RULES,
        keys::RULES,
        looking::RULES,
        whole::RULES,
        loss::RULES,
        torture::RULES,
        processes::RULES,
    ]
    .concat()
}

macro_rules! rule {
    ($when:expr, $name:ident, $says:literal) => {
        $crate::conformance::Rule {
            name: stringify!($name),
            says: $says,
            applies: $when,
            run: |room| Box::pin($name(room)),
        }
    };
}
use rule;

fn always(_: &Profile) -> bool {
    true
}

fn at_once(profile: &Profile) -> bool {
    profile.answers == Answers::AtOnce
}

fn with_leases(profile: &Profile) -> bool {
    matches!(profile.expiry, Expiry::Lease { .. })
}

fn in_order(profile: &Profile) -> bool {
    profile.fairness == Fairness::FirstCome
}

fn with_fences(profile: &Profile) -> bool {
    profile.fencing != Fencing::None
}

fn told(profile: &Profile) -> bool {
    profile.wake == Wake::Told
}

fn between_processes(profile: &Profile) -> bool {
    profile.reach != Reach::Process
}

fn tells_unasked(profile: &Profile) -> bool {
    profile.tells == Tells::Unasked
}
