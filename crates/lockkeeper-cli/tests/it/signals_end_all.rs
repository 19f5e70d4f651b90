//! After a signal that asks the command to end, the lock stays until all of its work has ended.

use std::{os::unix::process::CommandExt, process::Stdio};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::support::{N_MEMBERS, Place, children_of, code, is_alive, send, until};

/// A place with a family, and with one that ends neither by SIGTERM nor by SIGHUP.
fn place_with_deaf() -> Place {
    let place = Place::with_family();
    place.write("deaf.sh", "trap '' TERM HUP; echo $$ >> pids; while :; do sleep 0.01; done");
    place
}

fn nothing_ran_beside_the_next(place: &Place) {
    assert_eq!(code(&place.output(&["run", "k", "--", "sh", "look.sh"])), 0);
    place.nobody_was_seen();
}

#[test]
fn a_signal_frees_the_lock_only_when_all_work_has_ended() {
    // Not SIGINT and SIGQUIT: a shell leaves those to what it runs in the foreground.
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let place = place_with_deaf();
        let holder = place.spawn(&["run", "k", "--", "sh", "family.sh"]);
        place.until_at_work(N_MEMBERS);
        let next = place.spawn(&["run", "k", "--", "sh", "look.sh"]);
        place.until_waiting(1);
        holder.signal(signal);
        assert_eq!(code(&next.end()), 0, "{signal}");
        place.nobody_was_seen();
        assert!(!place.path("went-on").exists());
        assert_eq!(code(&holder.end()), 128 + signal as i32);
    }
}

#[test]
fn what_does_not_end_by_a_signal_is_killed_after_the_grace() {
    let place = place_with_deaf();
    let script = "sh deaf.sh & setsid sh deaf.sh & wait; wait";
    let holder = place.spawn(&["run", "--grace", "300ms", "k", "--", "sh", "-c", script]);
    place.until_at_work(2);
    holder.signal(Signal::SIGTERM);
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 143);
}

#[test]
fn a_grace_of_nothing_asks_nobody() {
    let place = place_with_deaf();
    let asked = "trap 'touch asked' TERM; echo $$ >> pids; while :; do sleep 0.01; done";
    place.write("asked.sh", asked);
    let holder = place.spawn(&["run", "--grace", "0s", "k", "--", "sh", "-c", "sh asked.sh; :"]);
    place.until_at_work(1);
    holder.signal(Signal::SIGTERM);
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 143);
    assert!(!place.path("asked").exists());
}

#[test]
fn the_lock_stays_while_the_grace_lasts() {
    let place = place_with_deaf();
    let holder = place.spawn(&["run", "--grace", "1h", "k", "--", "sh", "-c", "sh deaf.sh; :"]);
    place.until_at_work(1);
    holder.signal(Signal::SIGTERM);
    let deaf = place.pids("pids")[0];
    let warden = children_of(holder.pid())[0];
    until("the shell has ended", || children_of(warden) == [deaf]);
    assert!(place.is_busy() && is_alive(deaf));
    send(deaf, Signal::SIGKILL);
    assert_eq!(code(&holder.end()), 143);
    assert!(!place.is_busy());
}

#[test]
fn a_command_that_ends_in_its_own_way_when_asked_leaves_nothing_behind() {
    let place = place_with_deaf();
    let script = "trap 'exit 9' TERM; sh family.sh & until test -e go; do sleep 0.01; done";
    let holder = place.spawn(&["run", "k", "--", "sh", "-c", script]);
    place.until_at_work(N_MEMBERS);
    holder.signal(Signal::SIGTERM);
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 9);
}

#[test]
fn a_command_killed_by_others_leaves_nothing_behind() {
    let place = place_with_deaf();
    let script = "sh family.sh & until test -e go; do sleep 0.01; done; kill -9 $$";
    let holder = place.spawn(&["run", "k", "--", "sh", "-c", script]);
    place.until_at_work(N_MEMBERS);
    place.write("go", "");
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 137);
}

#[test]
fn a_signal_to_the_whole_process_group_counts_as_one_to_us() {
    // Whoever sees it first: here the command usually ends before we have passed it on.
    for _ in 0..10 {
        let place = place_with_deaf();
        let script =
            "trap 'exit 3' TERM; setsid sh deaf.sh & until test -e go; do sleep 0.01; done";
        let args = ["run", "--grace", "10ms", "k", "--", "sh", "-c", script];
        let mut command = place.lockkeeper(&args);
        let mut holder = command.process_group(0).stdout(Stdio::null()).spawn().unwrap();
        place.until_at_work(1);
        killpg(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        nothing_ran_beside_the_next(&place);
        assert_eq!(holder.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn other_signals_do_not_change_what_an_end_means() {
    let place = place_with_deaf();
    let script = "trap 'touch got' USR1; sleep 600 > /dev/null 2>&1 & echo $! > pids; \
                  until test -e got; do sleep 0.01; done; exit 3";
    let holder = place.spawn(&["run", "k", "--", "sh", "-c", script]);
    place.until_at_work(1);
    holder.signal(Signal::SIGUSR1);
    assert_eq!(code(&holder.end()), 3);
    let left = place.pids("pids")[0];
    assert!(is_alive(left) && !place.is_busy());
    send(left, Signal::SIGKILL);
}
