//! Signals to the command: passed on once, or ending the wait.

use nix::sys::signal::Signal;

use crate::support::{Place, children_of, code, is_alive, send, until};

/// Writes a line for every signal; ends with 9 at SIGTERM.
const COUNTING: &str = "\
    for signal in HUP INT QUIT USR1 USR2 WINCH; do trap \"echo $signal >> got\" $signal; done
    trap 'exit 9' TERM
    touch started
    while :; do sleep 0.01; done";

#[test]
fn signals_are_passed_on_exactly_once() {
    let place = Place::new();
    let holder = place.start(&[], COUNTING);
    let mut expected = Vec::new();
    for (signal, name) in [
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
        (Signal::SIGWINCH, "WINCH"),
    ]
    .repeat(3)
    {
        holder.signal(signal);
        expected.push(name);
        until(name, || place.read("got").lines().count() >= expected.len());
    }
    holder.signal(Signal::SIGTERM);
    assert_eq!(code(&holder.end()), 9);
    assert_eq!(place.read("got").lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_signal_that_ends_the_command_ends_us_with_its_number() {
    for (signal, expected) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)]
    {
        let place = Place::new();
        let holder = place.start(&[], "touch started; exec sleep 600");
        holder.signal(signal);
        assert_eq!(code(&holder.end()), expected);
        assert_eq!(code(&place.output(&["try", "k", "--", "true"])), 0);
    }
}

#[test]
fn a_signal_ends_the_wait_without_a_trace() {
    let place = Place::new();
    let holder = place.start(&[], "touch started; exec sleep 600");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let waiter = place.spawn(&["run", "k", "--", "touch", "ran"]);
        place.until_waiting(1);
        waiter.signal(signal);
        let output = waiter.end();
        assert_eq!(code(&output), 128 + signal as i32);
        assert_eq!((output.stdout, output.stderr), (vec![], vec![]));
        assert_eq!(place.n_waiting(), 0);
    }
    let waiter = place.spawn(&["run", "k", "--", "touch", "ran"]);
    place.until_waiting(1);
    let warden = children_of(waiter.pid());
    waiter.signal(Signal::SIGKILL);
    drop(waiter);
    until("its warden has left", || warden.iter().all(|&pid| !is_alive(pid)));
    assert_eq!(place.n_waiting(), 0);
    drop(holder);
    until("the lock is free", || code(&place.output(&["try", "k", "--", "true"])) == 0);
    assert!(!place.path("ran").exists());
}

#[test]
fn an_ignored_signal_does_not_end_the_wait() {
    let place = Place::new();
    let holder = place.start(&[], "touch started; exec sleep 600");
    let deaf = "trap '' HUP; exec \"$0\" \"$@\"";
    let mut waiter = place.in_shell(deaf, &["run", "k", "--", "touch", "ran"]).spawn().unwrap();
    place.until_waiting(1);
    send(waiter.id().try_into().unwrap(), Signal::SIGHUP);
    holder.signal(Signal::SIGTERM);
    assert_eq!(waiter.wait().unwrap().code(), Some(0));
    assert!(place.path("ran").exists());
}
