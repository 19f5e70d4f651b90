//! What is checked, and with whom.

mod entering;
mod leases;
mod owners;
mod waiting;

use crate::{
    Result,
    client::{Client, Renewal},
    yard::Yard,
};

pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Yard<'_>) -> Result<()>,
    applies_to: fn(&Client) -> bool,
}

pub(crate) const CHECKS: [Check; 16] = [
    check("theirs keeps us out", entering::theirs_keeps_us_out),
    check("ours keeps them out", entering::ours_keeps_them_out),
    check("two of each take turns, one at a time", entering::a_crowd_takes_turns),
    Check {
        name: "they enter twice, and we come in after the last unlock",
        run: entering::they_enter_twice,
        applies_to: |client| client.reenters,
    },
    check("we enter twice, and they come in after the last release", entering::we_enter_twice),
    check("their unlock lets our waiter in", waiting::their_unlock_lets_us_in),
    check("our release lets their waiter in", waiting::our_release_lets_them_in),
    Check {
        name: "their message wakes our waiter",
        run: waiting::their_message_wakes_us,
        applies_to: |client| client.sharing.tells_us(),
    },
    Check {
        name: "our message wakes their waiter",
        run: waiting::our_message_wakes_them,
        applies_to: |client| client.sharing.is_told(),
    },
    Check {
        name: "their lease is renewed, and keeps us out",
        run: leases::theirs_is_renewed,
        applies_to: |client| client.renewal != Renewal::None,
    },
    check("our lease is renewed, and keeps them out", leases::ours_is_renewed),
    check("we come in when the lease of their dead holder is over", leases::their_holder_dies),
    check("they come in when the lease of our dead holder is over", leases::our_holder_dies),
    check("their late unlock leaves our lock alone", owners::their_late_unlock),
    check("our late release leaves their lock alone", owners::our_late_release),
    Check {
        name: "their forced unlock is a loss to our guard",
        run: owners::their_force,
        applies_to: |client| client.sharing.is_told(),
    },
];

const fn check(name: &'static str, run: fn(&Yard<'_>) -> Result<()>) -> Check {
    Check { name, run, applies_to: |_| true }
}

/// The checks that make sense with a client.
pub(crate) fn of(client: &Client) -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().filter(move |check| (check.applies_to)(client))
}

/// Fails the check if something is not as it should be.
fn ensure(is_so: bool, otherwise: impl Into<String>) -> Result<()> {
    match is_so {
        true => Ok(()),
        false => Err(otherwise.into().into()),
    }
}
