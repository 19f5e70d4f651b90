//! The command with a lock that lives in a Redis.

use std::net::TcpListener;

use lab::redis::Server;
use nix::sys::signal::Signal;

use crate::support::{Place, code, fails_with, until};

fn place(server: &Server) -> Place {
    Place::with_locks_at(server.url())
}

#[test]
fn one_at_a_time_and_the_fence_grows() {
    let server = Server::start().unwrap();
    let place = place(&server);
    let mut holder = place.start(&[], "touch started; until test -e go; do sleep 0.01; done");
    let said = fails_with(75, &place.output(&["try", "k", "--", "true"]));
    assert!(said.contains(&format!("pid {}", holder.pid())), "{said}");
    let waiter = place.spawn(&["run", "k", "--", "sh", "-c", "echo $LOCKKEEPER_FENCE"]);
    place.until_waiting(1);
    assert!(holder.is_running());
    place.write("go", "");
    assert_eq!(code(&holder.end()), 0);
    let first: u64 = String::from_utf8(waiter.end().stdout).unwrap().trim().parse().unwrap();
    let next = place.output(&["run", "k", "--", "sh", "-c", "echo $LOCKKEEPER_FENCE"]);
    let next: u64 = String::from_utf8(next.stdout).unwrap().trim().parse().unwrap();
    assert!(next > first, "{first}, {next}");
    let left = server.command(&["KEYS", "lk:*k:*"]).unwrap();
    assert_eq!(left.list().len(), 0, "{left:?}");
}

#[test]
fn a_signal_while_it_waits_leaves_no_place_in_line_behind() {
    let server = Server::start().unwrap();
    let place = place(&server);
    let _holder = place.start(&[], "touch started; exec sleep 600");
    for n in 0..20 {
        let waiter = place.spawn(&["run", "k", "--", "true"]);
        place.until_waiting(1);
        waiter.signal(Signal::SIGTERM);
        assert_eq!(code(&waiter.end()), 143);
        assert_eq!(place.n_waiting(), 0, "round {n}: it stands in line though it has ended");
    }
}

#[test]
fn no_time_to_wait_is_time_for_one_attempt() {
    let server = Server::start().unwrap();
    let place = place(&server);
    for _ in 0..5 {
        let ran = place.output(&["run", "--within", "0s", "k", "--", "echo", "ran"]);
        assert_eq!((code(&ran), ran.stdout.as_slice()), (0, b"ran\n".as_slice()), "{ran:?}");
    }
    let holder = place.start(&[], "touch started; until test -e go; do sleep 0.01; done");
    let said = fails_with(76, &place.output(&["run", "--within", "0s", "k", "--", "true"]));
    assert!(said.contains("busy"), "{said}");
    place.write("go", "");
    assert_eq!(code(&holder.end()), 0);
    let left = server.command(&["KEYS", "lk:*k:*"]).unwrap();
    assert_eq!(left.list().len(), 0, "{left:?}");
}

#[test]
fn it_is_renewed_while_the_command_runs() {
    let server = Server::start().unwrap();
    let place = place(&server);
    let holder = place.start(&["--ttl", "1s"], "touch started; sleep 4");
    let n_renewals = || server.n_calls("pexpire").unwrap();
    until("it was renewed more often than one ttl needs", || n_renewals() >= 5);
    fails_with(75, &place.output(&["try", "k", "--", "true"]));
    assert_eq!(code(&holder.end()), 0);
}

#[test]
fn a_lock_that_is_lost_stops_the_command() {
    let server = Server::start().unwrap();
    let place = place(&server);
    let holder = place.start(&["--ttl", "1s"], "touch started; sleep 600");
    server.command(&["FLUSHALL"]).unwrap();
    assert_eq!(code(&holder.end()), 79);
}

#[test]
fn the_page_names_a_lock_as_the_server_has_it_and_the_help_says_that_who_sees_no_fence() {
    let server = Server::start().unwrap();
    let place = place(&server);
    let script = "touch started; until test -e go; do sleep 0.01; done";
    let holder = place.spawn(&["run", "deploy", "--", "sh", "-c", script]);
    until("the command runs", || place.path("started").exists());
    let names = server.command(&["KEYS", "lk:*k:deploy"]).unwrap();
    let who = place.output(&["who", "deploy"]).stdout;
    place.write("go", "");
    assert_eq!(code(&holder.end()), 0);
    let [name] = names.list() else { panic!("{names:?}") };
    let page = include_str!("../../../lockkeeper/src/engines/redis/page.md");
    assert!(page.contains(&format!("`{}` for `deploy`", name.text())), "{name:?}");
    let who = String::from_utf8(who).unwrap();
    let cells: Vec<&str> = who.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((cells[0], cells[4]), ("holds", "-"), "{who}");
    let help = String::from_utf8(place.output(&["who", "--help"]).stdout).unwrap();
    assert!(help.contains("FENCE on Redis"), "{help}");
}

#[test]
fn a_loss_that_only_the_release_notices_is_told_whatever_is_to_be_done_about_it() {
    let server = Server::start().unwrap();
    for (on_loss, expected) in [("ignore", 7), ("term", 79)] {
        let place = place(&server);
        // So long a ttl that no renewal comes before the end.
        let options = ["--ttl", "10m", "--on-loss", on_loss];
        let script = "touch started; until test -e go; do sleep 0.01; done; exit 7";
        let holder = place.start(&options, script);
        server.command(&["FLUSHALL"]).unwrap();
        place.write("go", "");
        let said = fails_with(expected, &holder.end());
        assert!(said.contains("\"k\" was lost before the command ended with 7"), "{said}");
    }
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let mut server = Server::start().unwrap();
    let place = place(&server);
    server.kill().unwrap();
    let said = fails_with(69, &place.output(&["run", "k", "--", "true"]));
    assert!(said.contains(&server.address()), "{said}");
}

/// Somebody who takes connections and never says anything, and a place with that URL.
fn silence() -> (TcpListener, Place) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://me:canary@{}", silent.local_addr().unwrap());
    (silent, Place::with_locks_at(url))
}

#[test]
fn a_limit_holds_for_connecting_too() {
    let run = ["run", "--within", "300ms", "k", "--", "touch", "ran"];
    let (silent, place) = silence();
    let said = fails_with(69, &place.output(&run));
    let expected = format!("redis://{} within 300ms; ", silent.local_addr().unwrap());
    assert!(said.contains(&expected) && !said.contains("canary"), "{said}");
    assert!(!place.path("ran").exists());

    let server = Server::start().unwrap();
    let place = self::place(&server);
    server.stop().unwrap();
    let said = fails_with(69, &place.output(&run));
    assert!(said.contains(&format!("{} within 300ms; ", server.url())), "{said}");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_signal_ends_connecting() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (silent, place) = silence();
        let connecting = place.spawn(&["run", "k", "--", "touch", "ran"]);
        let _connected = silent.accept().unwrap();
        connecting.signal(signal);
        let output = connecting.end();
        assert_eq!((code(&output), output.stderr), (128 + signal as i32, vec![]));
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn a_wrong_password_is_refused_and_not_printed() {
    let server = Server::start().unwrap();
    server.config_set("requirepass", "right").unwrap();
    let url = server.url().replace("redis://", "redis://:canary@");
    let said = fails_with(77, &Place::with_locks_at(url).output(&["run", "k", "--", "true"]));
    assert!(said.contains("password") && !said.contains("canary"), "{said}");
}

#[test]
fn a_missing_password_is_told_apart_from_a_wrong_one() {
    let server = Server::start().unwrap();
    server.config_set("requirepass", "right").unwrap();
    let said = fails_with(77, &place(&server).output(&["run", "k", "--", "true"]));
    assert!(said.contains("wants a password") && !said.contains("is wrong"), "{said}");
}

#[test]
fn what_a_dialect_cannot_do_is_called_by_its_name() {
    let server = Server::start().unwrap();
    for dialect in ["plain", "redisson"] {
        let place = Place::with_locks_at(format!("{}?dialect={dialect}", server.url()));
        for (args, verb) in [
            (&["who", "k"][..], "cannot tell who holds a lock"),
            (&["ls"], "cannot list its keys"),
            (&["tidy"], "has nothing to tidy"),
        ] {
            let said = fails_with(77, &place.output(args));
            assert!(said.contains(verb), "{said}");
        }
    }
}
