//! Which engine is used: here, and by a `lockkeeper` inside the command.

use std::os::fd::AsFd;

use lab::redis::Server;
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};

use crate::support::{LOCKKEEPER, Place, code, command, fails_with, until};

/// A server that wants a password, and a place with its URL.
fn with_password() -> (Server, Place) {
    let server = Server::start().unwrap();
    server.config_set("requirepass", "canary").unwrap();
    let place = Place::with_locks_at(server.url().replace("redis://", "redis://:canary@"));
    (server, place)
}

/// Runs a script under the lock of `outer`, with the URL in the environment.
fn run_script(place: &Place, script: &str) -> std::process::Output {
    let mut command = command(LOCKKEEPER);
    command.args(["run", "outer", "--", "sh", "-c", script]).env("LOCKKEEPER", LOCKKEEPER);
    command.env("LOCKKEEPER_URL", place.url()).env("XDG_STATE_HOME", place.path("state"));
    command.current_dir(place.path("")).output().unwrap()
}

#[test]
fn a_lockkeeper_inside_the_command_uses_the_same_engine_without_seeing_the_password() {
    let (_server, place) = with_password();
    let look = "env >> seen; $LOCKKEEPER who outer; $LOCKKEEPER who inner";
    place.write("look.sh", look);
    let script = "env > seen; $LOCKKEEPER run inner -- sh look.sh";
    let output = run_script(&place, script);
    assert_eq!((code(&output), &output.stderr[..]), (0, &b""[..]));
    // The innermost one sees both locks held, on the server.
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("holds ")).count(), 2, "{said}");
    assert!(said.contains("at redis://127.0.0.1:") && !said.contains("canary"), "{said}");
    let seen = place.read("seen");
    assert_eq!(seen.lines().filter(|line| line.starts_with("LOCKKEEPER_URL_FROM=")).count(), 2);
    assert!(!seen.contains("canary") && !seen.contains("LOCKKEEPER_URL="), "{seen}");
    assert!(!place.path("state").exists(), "a lock was taken in a folder");
}

#[test]
fn a_url_on_the_command_line_is_passed_on_too() {
    let place = Place::new();
    let look = ["run", "k", "--", "sh", "-c", "$LOCKKEEPER who k"];
    let mut command = place.lockkeeper(&look);
    let output = command.env("LOCKKEEPER", LOCKKEEPER).env("XDG_STATE_HOME", place.path("state"));
    let said = String::from_utf8(output.output().unwrap().stdout).unwrap();
    assert!(
        said.contains("\nholds ") && said.ends_with(&format!("at {}\n", place.url())),
        "{said}"
    );
    assert!(!place.path("state").exists());
}

#[test]
fn what_is_left_behind_when_the_run_has_ended_is_refused_and_told_what_to_do() {
    let (_server, place) = with_password();
    place
        .write("later.sh", "until test -e go; do sleep 0.01; done; $LOCKKEEPER try k -- touch ran");
    let script = "(sh later.sh > said 2>&1; echo $? > code) > /dev/null 2>&1 &";
    assert_eq!(code(&run_script(&place, script)), 0);
    place.write("go", "");
    until("it has ended", || place.read("code").ends_with('\n'));
    assert_eq!(place.read("code"), "77\n", "{}", place.read("said"));
    let said = place.read("said");
    assert!(said.contains("set LOCKKEEPER_URL") && said.lines().count() == 1, "{said}");
    assert!(!place.path("ran").exists() && !place.path("state").exists());
}

#[test]
fn a_place_that_leads_nowhere_is_refused_and_one_who_names_an_engine_is_not() {
    let place = Place::new();
    for from in ["", "nowhere", "1/0/7", "999999999/3/7"] {
        for args in [&["try", "k", "--", "touch", "ran"][..], &["who", "k"], &["ls"], &["tidy"]] {
            let mut command = command(LOCKKEEPER);
            command.args(args).env("LOCKKEEPER_URL_FROM", from);
            fails_with(77, &command.current_dir(place.path("")).output().unwrap());
        }
        let mut command = place.lockkeeper(&["try", "k", "--", "true"]);
        assert_eq!(code(&command.env("LOCKKEEPER_URL_FROM", from).output().unwrap()), 0);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_lock_in_memory_is_refused_because_it_excludes_nobody() {
    let place = Place::new();
    for url in ["memory:", "memory:x", "MEMORY:"] {
        let run = ["run", "k", "--", "touch", "ran"];
        for args in [&run[..], &["try", "k", "--", "true"], &["who", "k"], &["ls"], &["tidy"]] {
            let mut command = command(LOCKKEEPER);
            command.env("LOCKKEEPER_URL", url).args(args).current_dir(place.path(""));
            let said = fails_with(64, &command.output().unwrap());
            assert!(said.contains("excludes nobody") && said.contains("file:///"), "{said}");
        }
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn two_state_folders_are_two_places_and_who_says_which() {
    let place = Place::new();
    for state in ["one", "other"] {
        let mut command = command(LOCKKEEPER);
        command.args(["who", "k"]).env("XDG_STATE_HOME", place.path(state));
        let output = command.output().unwrap();
        let folder = place.path(state).join("lockkeeper/locks");
        let expected = format!("\"k\" at file://{} is free\n", folder.display());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}

#[test]
fn a_floor_that_somebody_keeps_locked_stops_no_new_key() {
    let place = Place::new();
    std::fs::create_dir(place.path("locks")).unwrap();
    let floor = std::fs::File::create_new(place.path("locks/.floor")).unwrap();
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 1 << 40,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(floor.as_fd(), FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    let mut run = place.spawn(&["run", "--within", "1s", "k", "--", "touch", "ran"]);
    until("the run has ended", || !run.is_running());
    let output = run.end();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(place.path("ran").exists());
}
