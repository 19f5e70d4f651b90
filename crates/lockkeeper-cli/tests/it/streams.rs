//! What the command sees: its streams, its environment, its signals, its descriptors.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::support::{LOCKKEEPER, Place, code, command, fails_with};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn stdin_goes_in_and_stdout_comes_out_untouched() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..100_000).map(|i: u32| i.to_le_bytes()[0]).collect();
    let mut command = place.lockkeeper(&["run", "k", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(code(&output), 0);
    assert!(output.stdout == bytes, "the bytes changed on the way");
}

#[test]
fn stderr_belongs_to_the_command() {
    let place = Place::new();
    let output = place.output(&["run", "k", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n".into(), "err\n".into()));
}

#[test]
fn the_environment_names_the_key_and_a_fence_that_rises() {
    let place = Place::new();
    let mut last = 0;
    for _ in 0..3 {
        let script = "echo \"$LOCKKEEPER_KEY\"; echo \"$LOCKKEEPER_FENCE\"";
        let output = text(&place.output(&["run", "a b", "--", "sh", "-c", script]).stdout);
        let (key, fence) = output.trim_end().split_once('\n').unwrap();
        let fence: u64 = fence.parse().unwrap();
        assert_eq!(key, "a b");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[test]
fn signals_are_those_of_a_plain_start() {
    let place = Place::new();
    let look = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"];
    let under_lock = place.output(&[&["run", "k", "--"][..], &look].concat());
    let plain = command(look[0]).args(&look[1..]).output().unwrap();
    assert_eq!(text(&under_lock.stdout), text(&plain.stdout));
}

/// The descriptors that a command has under a lock and not without one.
fn inherited(place: &Place, limit: &str) -> Vec<u32> {
    let numbers = |command: &mut Command| -> Vec<u32> {
        let listed = text(&command.stdin(Stdio::null()).output().unwrap().stdout);
        listed.lines().map(|number| number.parse().unwrap()).collect()
    };
    let limited = format!("{limit}; exec \"$0\" \"$@\"");
    let mut under_lock = place.in_shell(&limited, &["run", "k", "--", "ls", "/proc/self/fd"]);
    let plain = numbers(command("sh").args(["-c", "exec \"$0\" \"$@\"", "ls", "/proc/self/fd"]));
    numbers(&mut under_lock).into_iter().filter(|number| !plain.contains(number)).collect()
}

#[test]
fn the_only_descriptor_beside_those_of_a_plain_start_is_the_lock() {
    let place = Place::new();
    let numbers = inherited(&place, ":");
    assert!(numbers.len() == 1 && (60..64).contains(&numbers[0]), "{numbers:?}");
    let numbers = inherited(&place, "ulimit -n 32");
    assert!(numbers.len() == 1 && (10..32).contains(&numbers[0]), "{numbers:?}");
    let server = lab::redis::Server::start().unwrap();
    assert_eq!(inherited(&Place::with_locks_at(server.url()), ":"), []);
}

#[test]
fn what_was_ignored_stays_ignored() {
    let place = Place::new();
    let script = "trap '' HUP INT CHLD; exec \"$0\" \"$@\"";
    let look = ["grep", "^SigIgn", "/proc/self/status"];
    let run = ["run", "k", "--", look[0], look[1], look[2]];
    let under_lock = place.in_shell(script, &run).output();
    let plain = command("sh").args(["-c", script]).args(look).output().unwrap();
    assert_eq!(text(&under_lock.unwrap().stdout), text(&plain.stdout));
}

#[test]
fn a_password_reaches_neither_the_command_nor_any_message() {
    let place = Place::new();
    let secret = "redis://me:canary@localhost";
    let output =
        place.lockkeeper(&["run", "k", "--", "env"]).env("LOCKKEEPER_URL", secret).output();
    let seen = text(&output.unwrap().stdout);
    assert!(seen.contains("LOCKKEEPER_KEY=k") && !seen.contains("canary"), "{seen}");

    for args in [&["run", "k", "--", "true"][..], &["ls"], &[secret], &["run", "--ttl", secret]] {
        let mut command = command(LOCKKEEPER);
        let output = command.env("LOCKKEEPER_URL", "frob://me:canary@host").args(args).output();
        let said = fails_with(64, &output.unwrap());
        assert!(!said.contains("canary"), "{said}");
    }
    let output = place.lockkeeper(&["--help"]).env("LOCKKEEPER_URL", secret).output().unwrap();
    assert!(!text(&output.stdout).contains("canary"));
}

#[test]
fn an_url_without_a_password_is_left_to_the_command() {
    let place = Place::new();
    let mut command = command(LOCKKEEPER);
    command.env("LOCKKEEPER_URL", place.url()).args([
        "run",
        "k",
        "--",
        "printenv",
        "LOCKKEEPER_URL",
    ]);
    assert_eq!(text(&command.output().unwrap().stdout).trim_end(), place.url());
}

#[test]
fn a_reader_who_leaves_early_is_no_failure() {
    for args in [&["man"][..], &["completions", "zsh"], &["--help"]] {
        let mut command = command(LOCKKEEPER);
        let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stderr)), (0, String::new()), "{args:?}");
    }
}

#[test]
fn a_full_disk_under_stdout_is_told() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = command(LOCKKEEPER);
    let output = command.arg("man").stdout(full).stderr(Stdio::piped()).output().unwrap();
    fails_with(70, &output);
}

#[test]
fn closed_standard_streams_do_not_matter() {
    let place = Place::new();
    let script = "exec \"$0\" \"$@\" <&- >&- 2>&-";
    let mut shell = place.in_shell(script, &["run", "k", "--", "sh", "-c", "exit 5"]);
    assert_eq!(shell.status().unwrap().code(), Some(5));
}
