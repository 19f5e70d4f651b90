//! After a signal that asks the command to end, the lock stays until all of its work has ended.

use std::{os::unix::process::CommandExt, process::Stdio};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::support::{Place, code, is_alive, until};

/// Works in the foreground, as most scripts do; a signal ends the shell alone.
const JOB: &str = "\
    sh -c 'echo $$ >> pids; exec sleep 600' &
    setsid sh -c '(sh -c \"echo \\$\\$ >> pids; exec sleep 600\" &)'
    sh -c 'echo $$ >> pids; exec sleep 600'
    touch went-on";

const N_WORKERS: usize = 3;

/// Notes which of them still run while it has the lock.
const LOOK: &str = "\
    for pid in $(cat pids); do
        grep -qE '^State:.[^ZX]' /proc/$pid/status 2> /dev/null && echo $pid >> alive
    done
    touch looked";

fn place_with_job() -> Place {
    let place = Place::new();
    place.write("job.sh", JOB);
    place.write("deaf.sh", "trap '' TERM HUP; echo $$ >> pids; while :; do sleep 0.01; done");
    place.write("look.sh", LOOK);
    place
}

fn until_working(place: &Place, n_workers: usize) {
    until("all work", || place.read("pids").lines().count() == n_workers);
}

fn nothing_ran_beside_the_next(place: &Place) {
    assert_eq!(code(&place.output(&["run", "k", "--", "sh", "look.sh"])), 0);
    assert!(place.path("looked").exists());
    assert_eq!(place.read("alive"), "", "of {:?}", place.pids("pids"));
}

#[test]
fn a_signal_frees_the_lock_only_when_all_work_has_ended() {
    // Not SIGINT and SIGQUIT: a shell leaves those to what it runs in the foreground.
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let place = place_with_job();
        let holder = place.spawn(&["run", "k", "--", "sh", "job.sh"]);
        until_working(&place, N_WORKERS);
        let next = place.spawn(&["run", "k", "--", "sh", "look.sh"]);
        place.until_waiting(1);
        holder.signal(signal);
        assert_eq!(code(&next.end()), 0, "{signal}");
        assert_eq!(place.read("alive"), "", "{signal}: of {:?}", place.pids("pids"));
        assert!(place.path("looked").exists() && !place.path("went-on").exists());
        assert_eq!(code(&holder.end()), 128 + signal as i32);
    }
}

#[test]
fn what_does_not_end_by_a_signal_is_killed_after_the_grace() {
    let place = place_with_job();
    let script = "sh deaf.sh & setsid sh deaf.sh & wait; wait";
    let holder = place.spawn(&["run", "--grace", "300ms", "k", "--", "sh", "-c", script]);
    until_working(&place, 2);
    holder.signal(Signal::SIGTERM);
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 143);
}

#[test]
fn a_grace_of_nothing_asks_nobody() {
    let place = place_with_job();
    let asked = "trap 'touch asked' TERM; echo $$ >> pids; while :; do sleep 0.01; done";
    place.write("asked.sh", asked);
    let holder = place.spawn(&["run", "--grace", "0s", "k", "--", "sh", "-c", "sh asked.sh; :"]);
    until_working(&place, 1);
    holder.signal(Signal::SIGTERM);
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 143);
    assert!(!place.path("asked").exists());
}

#[test]
fn the_lock_stays_while_the_grace_lasts() {
    let place = place_with_job();
    let holder = place.spawn(&["run", "--grace", "1h", "k", "--", "sh", "-c", "sh deaf.sh; :"]);
    until_working(&place, 1);
    holder.signal(Signal::SIGTERM);
    let deaf = place.pids("pids")[0];
    let warden = crate::support::children_of(holder.pid())[0];
    until("the shell has ended", || crate::support::children_of(warden) == [deaf]);
    assert!(place.is_busy() && is_alive(deaf));
    crate::support::send(deaf, Signal::SIGKILL);
    assert_eq!(code(&holder.end()), 143);
    assert!(!place.is_busy());
}

#[test]
fn a_command_that_ends_in_its_own_way_when_asked_leaves_nothing_behind() {
    let place = place_with_job();
    let script = "trap 'exit 9' TERM; sh job.sh & until test -e go; do sleep 0.01; done";
    let holder = place.spawn(&["run", "k", "--", "sh", "-c", script]);
    until_working(&place, N_WORKERS);
    holder.signal(Signal::SIGTERM);
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 9);
}

#[test]
fn a_command_killed_by_others_leaves_nothing_behind() {
    let place = place_with_job();
    let script = "sh job.sh & until test -e go; do sleep 0.01; done; kill -9 $$";
    let holder = place.spawn(&["run", "k", "--", "sh", "-c", script]);
    until_working(&place, N_WORKERS);
    place.write("go", "");
    nothing_ran_beside_the_next(&place);
    assert_eq!(code(&holder.end()), 137);
}

#[test]
fn a_signal_to_the_whole_process_group_counts_as_one_to_us() {
    // Whoever sees it first: here the command usually ends before we have passed it on.
    for _ in 0..10 {
        let place = place_with_job();
        let script =
            "trap 'exit 3' TERM; setsid sh deaf.sh & until test -e go; do sleep 0.01; done";
        let args = ["run", "--grace", "10ms", "k", "--", "sh", "-c", script];
        let mut command = place.lockkeeper(&args);
        let mut holder = command.process_group(0).stdout(Stdio::null()).spawn().unwrap();
        until_working(&place, 1);
        killpg(Pid::from_raw(holder.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        nothing_ran_beside_the_next(&place);
        assert_eq!(holder.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn other_signals_do_not_change_what_an_end_means() {
    let place = place_with_job();
    let script = "trap 'touch got' USR1; sleep 600 > /dev/null 2>&1 & echo $! > pids; \
                  until test -e got; do sleep 0.01; done; exit 3";
    let holder = place.spawn(&["run", "k", "--", "sh", "-c", script]);
    until_working(&place, 1);
    holder.signal(Signal::SIGUSR1);
    assert_eq!(code(&holder.end()), 3);
    let left = place.pids("pids")[0];
    assert!(is_alive(left) && !place.is_busy());
    crate::support::send(left, Signal::SIGKILL);
}
