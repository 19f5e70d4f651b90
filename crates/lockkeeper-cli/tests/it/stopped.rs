//! Stopping and going on: of the command, of its child, and while it waits.

use lab::redis::Server;
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use crate::support::{Place, Running, code, is_alive, is_stopped, send, until};

#[test]
fn stopping_and_going_on_reaches_the_command_and_us() {
    let place = Place::new();
    let script = "echo $$ > pid; touch started; exec sleep 600";
    let mut holder = place.spawn_as_job(&["run", "k", "--", "sh", "-c", script]);
    until("the command has started", || place.path("started").exists());
    let child = place.pids("pid")[0];
    for _ in 0..3 {
        until("the child has stopped", || {
            // Going on takes back a stop that was asked for at the same time.
            holder.signal(Signal::SIGTSTP);
            is_stopped(child)
        });
        until("we have stopped", || is_stopped(holder.pid()));
        holder.signal(Signal::SIGCONT);
        until("the child goes on", || !is_stopped(child));
        until("we go on", || !is_stopped(holder.pid()));
    }
    // A child stopped on its own takes nobody along for good.
    send(child, Signal::SIGSTOP);
    until("the child has stopped", || is_stopped(child));
    send(child, Signal::SIGCONT);
    assert!(holder.is_running());
    holder.signal(Signal::SIGTERM);
    assert_eq!(code(&holder.end()), 143);
}

#[test]
fn going_on_reaches_the_command_once() {
    const N_TIMES: usize = 20;
    let place = Place::new();
    // Two seconds are the longest it waits for a signal that came before `wait` did.
    let script = "trap 'echo >> went-on' CONT; echo $$ > pid; touch started; \
                  while [ ! -e enough ]; do sleep 2 & wait; done";
    let holder = place.start(&[], script);
    let child = place.pids("pid")[0];
    for n in 1..=N_TIMES {
        send(child, Signal::SIGSTOP);
        until("the child has stopped", || is_stopped(child));
        holder.signal(Signal::SIGCONT);
        until("the child goes on", || place.read("went-on").lines().count() >= n);
    }
    place.write("enough", "");
    assert_eq!(code(&holder.end()), 0);
    assert_eq!(place.read("went-on").lines().count(), N_TIMES);
}

#[test]
fn a_stopped_command_ends_by_a_signal_that_asks_it_to() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let place = Place::new();
        let mut holder = place.start(&[], "echo $$ > pid; touch started; exec sleep 600");
        let child = place.pids("pid")[0];
        send(child, Signal::SIGSTOP);
        until("the child has stopped", || is_stopped(child));
        holder.signal(signal);
        until("the signal has ended it", || !holder.is_running());
        assert_eq!(code(&holder.end()), 128 + signal as i32);
        assert!(!place.is_busy());
    }
}

#[test]
fn a_stopped_command_ends_in_its_own_way_and_leaves_nothing_stopped_behind() {
    let place = Place::new();
    let script = "trap 'exit 9' TERM; sleep 600 & echo $! > pids; echo $$ >> pids; touch started; \
                  while :; do sleep 0.01; done";
    let mut holder = place.start(&[], script);
    for pid in place.pids("pids") {
        send(pid, Signal::SIGSTOP);
        until("it has stopped", || is_stopped(pid));
    }
    holder.signal(Signal::SIGTERM);
    until("the signal has ended it", || !holder.is_running());
    assert_eq!(code(&holder.end()), 9);
    assert!(!place.pids("pids").into_iter().any(is_alive) && !place.is_busy());
}

/// A holder as a job, and its child, both stopped as Ctrl-Z does it.
fn stopped_job(place: &Place, script: &str) -> (Running, i32) {
    let script = format!("echo $$ > pid; {script}");
    let holder = place.spawn_as_job(&["run", "k", "--", "sh", "-c", &script]);
    until("the command has started", || place.path("started").exists());
    let child = place.pids("pid")[0];
    stop(&holder, child);
    (holder, child)
}

fn stop(holder: &Running, child: i32) {
    send(child, Signal::SIGTSTP);
    until("the child has stopped", || is_stopped(child));
    until("we have stopped", || is_stopped(holder.pid()));
}

#[test]
fn a_child_that_ends_while_it_is_stopped_leaves_no_lock_behind() {
    for ends in [&[Signal::SIGKILL][..], &[Signal::SIGTERM, Signal::SIGCONT]] {
        let place = Place::new();
        let (mut holder, child) = stopped_job(&place, "touch started; exec sleep 600");
        for signal in ends {
            send(child, *signal);
        }
        until("we have ended, too", || !holder.is_running());
        assert_eq!(code(&holder.end()), 128 + ends[0] as i32);
        assert!(!place.is_busy());
    }
}

#[test]
fn what_a_stopped_child_leaves_behind_does_not_keep_us_stopped() {
    let place = Place::new();
    let script =
        "setsid sleep 600 & echo $! > left; touch started; until test -e go; do sleep 0.01; done";
    let (mut holder, child) = stopped_job(&place, script);
    send(child, Signal::SIGKILL);
    until("we have ended, too", || !holder.is_running());
    assert_eq!(code(&holder.end()), 137);
    assert!(!place.pids("left").into_iter().any(is_alive) && !place.is_busy());
}

#[test]
fn a_signal_to_the_whole_group_ends_a_stopped_job() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let place = Place::new();
        let (mut holder, _) = stopped_job(&place, "touch started; exec sleep 600");
        killpg(Pid::from_raw(holder.pid()), signal).unwrap();
        until("the signal has ended us", || !holder.is_running());
        assert_eq!(code(&holder.end()), 128 + signal as i32);
        assert!(!place.is_busy());
    }
}

#[test]
fn a_signal_to_us_ends_a_stopped_job() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let place = Place::new();
        let (mut holder, child) = stopped_job(&place, "touch started; exec sleep 600");
        holder.signal(signal);
        until("the signal has ended us", || !holder.is_running());
        assert_eq!(code(&holder.end()), 128 + signal as i32);
        assert!(!is_alive(child) && !place.is_busy());
    }
}

#[test]
fn a_stopped_child_that_is_killed_after_the_grace_takes_us_along() {
    let place = Place::new();
    let script =
        "trap 'touch asked' TERM; echo $$ > pid; touch started; while :; do sleep 0.01; done";
    let words = ["run", "--grace", "2s", "k", "--", "sh", "-c", script];
    let mut holder = place.spawn_as_job(&words);
    until("the command has started", || place.path("started").exists());
    place.remove_lock_file();
    until("it was asked to end", || place.path("asked").exists());
    // On a slow machine the grace may be over before it has stopped.
    let _ = kill(Pid::from_raw(place.pids("pid")[0]), Signal::SIGTSTP);
    until("the grace is over and we have ended", || !holder.is_running());
    assert_eq!(code(&holder.end()), 79);
}

/// Two in line behind a holder, and the first of them is told to stop.
fn stop_the_first_in_line(place: &Place) -> (Running, Running, Running) {
    let holder = place.start(&[], "touch started; until test -e go; do sleep 0.01; done");
    let first = place.spawn(&["run", "k", "--", "touch", "first-ran"]);
    place.until_waiting(1);
    let second = place.spawn(&["run", "k", "--", "touch", "second-ran"]);
    place.until_waiting(2);
    first.signal(Signal::SIGTSTP);
    until("it has stopped", || is_stopped(first.pid()));
    (holder, first, second)
}

fn whoever_stops_leaves_the_line(place: &Place) {
    let (holder, first, second) = stop_the_first_in_line(place);
    assert_eq!(place.n_waiting(), 1, "one of two has stopped");
    place.write("go", "");
    assert_eq!(code(&holder.end()), 0);
    assert_eq!(code(&second.end()), 0);
    assert!(is_stopped(first.pid()) && !place.path("first-ran").exists());
    first.signal(Signal::SIGCONT);
    assert_eq!(code(&first.end()), 0);
    assert!(place.path("first-ran").exists() && place.path("second-ran").exists());
}

#[test]
fn who_is_stopped_while_it_waits_leaves_the_line_and_joins_it_again() {
    whoever_stops_leaves_the_line(&Place::new());
}

#[test]
fn who_is_stopped_while_it_waits_leaves_the_line_in_a_server_too() {
    let server = Server::start().unwrap();
    whoever_stops_leaves_the_line(&Place::with_locks_at(server.url()));
}

#[test]
fn who_goes_on_stands_in_line_again() {
    let place = Place::new();
    let (holder, first, second) = stop_the_first_in_line(&place);
    for _ in 0..5 {
        first.signal(Signal::SIGCONT);
        place.until_waiting(2);
        first.signal(Signal::SIGTSTP);
        until("it has stopped", || is_stopped(first.pid()));
        assert_eq!(place.n_waiting(), 1);
    }
    // A signal that came while it was stopped ends it when it goes on.
    first.signal(Signal::SIGTERM);
    first.signal(Signal::SIGCONT);
    assert_eq!(code(&first.end()), 143);
    place.write("go", "");
    assert_eq!((code(&holder.end()), code(&second.end())), (0, 0));
    assert!(!place.path("first-ran").exists());
}

#[test]
fn a_limit_holds_also_for_one_who_was_stopped() {
    let place = Place::new();
    let holder = place.start(&[], "touch started; sleep 600");
    let mut waiter = place.spawn(&["run", "--within", "3s", "k", "--", "touch", "ran"]);
    // On a slow machine its time may be over before it is seen.
    until("it waits", || place.n_waiting() == 1 || !waiter.is_running());
    if waiter.is_running() {
        waiter.signal(Signal::SIGTSTP);
    }
    until("it has stopped", || is_stopped(waiter.pid()) || !waiter.is_running());
    if waiter.is_running() {
        waiter.signal(Signal::SIGCONT);
    }
    assert_eq!(code(&waiter.end()), 76);
    assert!(!place.path("ran").exists());
    drop(holder);
}
