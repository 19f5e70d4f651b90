//! On a terminal, which `script` provides: it copies our input into a new one.

use std::{
    io::Write,
    process::{Child, Stdio},
};

use lab::redis::Server;
use nix::sys::signal::Signal;

use crate::support::{LOCKKEEPER, Place, code, command, is_stopped, send, until};

/// Runs `lockkeeper` on a terminal of its own; what is written to its stdin is typed there.
fn on_terminal(place: &Place, args: &str) -> Child {
    let line = format!("exec '{LOCKKEEPER}' --url '{}' {args}", place.url());
    let mut script = command("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(place.path(""));
    script.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn what_the_terminal_sends_reaches_the_command_once() {
    let place = Place::new();
    place.write(
        "count.sh",
        "trap 'echo INT >> got' INT; touch started; until test -e go; do sleep 0.01; done; exit 4",
    );
    let mut script = on_terminal(&place, "run k -- sh count.sh");
    until("the command runs", || place.path("started").exists());
    let mut keyboard = script.stdin.take().unwrap();
    for n_typed in 1..=3 {
        keyboard.write_all(b"\x03").unwrap();
        until("the interrupt has come", || place.read("got").lines().count() >= n_typed);
    }
    place.write("go", "");
    let output = script.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(place.read("got"), "INT\n".repeat(3));
}

#[test]
fn an_interrupt_at_the_terminal_ends_a_command_that_is_stopped() {
    let place = Place::new();
    place.write("stay.sh", "echo $$ > pid; touch started; exec sleep 600");
    let mut script = on_terminal(&place, "run k -- sh stay.sh");
    until("the command runs", || place.path("started").exists());
    let child = place.pids("pid")[0];
    send(child, Signal::SIGSTOP);
    until("it has stopped", || is_stopped(child));
    script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    until("it has ended", || script.try_wait().unwrap().is_some());
    assert_eq!(script.wait().unwrap().code(), Some(128 + Signal::SIGINT as i32));
    assert!(!place.is_busy());
}

#[test]
fn who_waits_at_a_terminal_is_told_for_whom() {
    let place = Place::new();
    let holder =
        place.start(&["--label", "me"], "touch started; until test -e go; do sleep 0.01; done");
    until("the label is shown", || {
        String::from_utf8(place.output(&["who", "k"]).stdout).unwrap().contains("me")
    });
    let mut script = on_terminal(&place, "run k -- true");
    let keyboard = script.stdin.take();
    place.until_waiting(1);
    place.write("go", "");
    let output = script.wait_with_output().unwrap();
    drop(keyboard);
    let said = String::from_utf8(output.stdout).unwrap();
    let (place, pid) = (place.url(), holder.pid());
    let expected = format!("lockkeeper: waiting for \"k\" at {place}, held by pid {pid} ");
    assert!(said.starts_with(&expected) && said.contains(" (me) since "), "{said:?}");
    assert_eq!(said.lines().count(), 1, "{said:?}");
    assert_eq!(code(&holder.end()), 0);
}

#[test]
fn an_interrupt_at_the_terminal_ends_the_wait() {
    let place = Place::new();
    let holder = place.start(&[], "touch started; sleep 600");
    let mut script = on_terminal(&place, "run k -- touch ran");
    place.until_waiting(1);
    script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(128 + Signal::SIGINT as i32));
    assert!(!place.path("ran").exists());
    drop(holder);
}

#[test]
fn a_limit_holds_at_a_terminal_when_the_server_does_not_answer() {
    let server = Server::start().unwrap();
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
    let place = Place::with_locks_at(server.url());
    let mut script = on_terminal(&place, "run --within 300ms k -- touch ran");
    let keyboard = script.stdin.take();
    let output = script.wait_with_output().unwrap();
    drop(keyboard);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said:?}");
    // Not the longer time that the library gives an engine.
    assert!(said.contains("no answer in the time there was"), "{said:?}");
    assert!(!place.path("ran").exists());
}
