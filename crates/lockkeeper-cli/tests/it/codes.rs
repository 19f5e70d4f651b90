//! The exit codes, each with its one line on stderr.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::support::{LOCKKEEPER, Place, code, command, fails_with};

#[test]
fn the_status_of_the_command_is_ours() {
    let place = Place::new();
    for status in [0, 1, 2, 42, 64, 75, 79, 126, 127, 128, 254, 255] {
        for verb in ["run", "try"] {
            let output = place.output(&[verb, "k", "--", "sh", "-c", &format!("exit {status}")]);
            assert_eq!(code(&output), status);
            assert_eq!(output.stderr, b"", "{status}");
        }
    }
}

#[test]
fn a_signal_that_ends_the_command_is_128_and_its_number() {
    let place = Place::new();
    // 40 is a real-time signal.
    for signal in [1, 2, 3, 6, 9, 11, 13, 15, 40] {
        let script = format!("kill -{signal} $$");
        let output = place.output(&["run", "k", "--", "sh", "-c", &script]);
        assert_eq!(code(&output), 128 + signal);
    }
}

#[test]
fn a_command_that_cannot_run_is_126_or_127() {
    let place = Place::new();
    place.write("not-executable", "");
    let said = fails_with(127, &place.output(&["run", "k", "--", "no-such-command"]));
    assert!(said.contains("\"no-such-command\""), "{said}");
    fails_with(127, &place.output(&["run", "k", "--", "./no/such/command"]));
    fails_with(126, &place.output(&["run", "k", "--", "./not-executable"]));
    fails_with(126, &place.output(&["run", "k", "--", "."]));
    fails_with(127, &place.output(&["run", "k", "--", ""]));
    // And the lock is free again.
    assert_eq!(code(&place.output(&["try", "k", "--", "true"])), 0);
}

#[test]
fn a_busy_lock_is_75_for_try_and_76_for_a_wait_with_a_limit() {
    let place = Place::new();
    let holder = place.start(&["--label", "the\nholder"], "touch started; sleep 600");
    let said = fails_with(75, &place.output(&["try", "k", "--", "touch", "ran"]));
    assert!(said.contains(&format!("held by pid {}", holder.pid())), "{said}");
    let said =
        fails_with(76, &place.output(&["run", "--within", "50ms", "k", "--", "touch", "ran"]));
    assert!(said.contains(&format!("at {} was busy for 50ms", place.url())), "{said}");
    fails_with(76, &place.output(&["run", "--within", "0s", "k", "--", "touch", "ran"]));
    assert!(!place.path("ran").exists());
}

#[test]
fn bad_usage_is_64() {
    let place = Place::new();
    for args in [
        &["frob"][..],
        &["run"],
        &["run", "k"],
        &["run", "k", "--"],
        &["run", "k", "true"],
        &["run", "--frob", "k", "--", "true"],
        &["run", "--within", "soon", "k", "--", "true"],
        &["run", "--within", "-1s", "k", "--", "true"],
        &["run", "--on-loss", "cry", "k", "--", "true"],
        &["try", "--within", "1s", "k", "--", "true"],
        &["run", "", "--", "true"],
        &["run", &"x".repeat(513), "--", "true"],
        &["run", "--ttl", "0s", "k", "--", "true"],
        &["who", ""],
        &["who", &"x".repeat(513)],
        &["tidy", "--idle", "long"],
        &["completions", "tcsh"],
    ] {
        fails_with(64, &place.output(args));
    }
}

#[test]
fn a_bare_call_shows_the_help_on_stderr() {
    let output = command(LOCKKEEPER).output().unwrap();
    assert_eq!((code(&output), &output.stdout[..]), (64, &b""[..]));
    assert!(!output.stderr.is_empty());
}

#[test]
fn urls_that_cannot_be_meant_are_64() {
    let place = Place::new();
    let good = place.url();
    for url in ["frob://host", "nothing", "://", "file://host/folder", &format!("{good}?frob=1")] {
        for args in [&["run", "k", "--", "true"][..], &["who", "k"], &["ls"], &["tidy"]] {
            let mut command = command(LOCKKEEPER);
            let output = command.env("LOCKKEEPER_URL", url).args(args).output().unwrap();
            fails_with(64, &output);
        }
    }
}

#[test]
fn an_empty_url_is_64_and_no_lock_is_taken() {
    let place = Place::new();
    for args in [&["run", "k", "--", "touch", "ran"][..], &["who", "k"], &["ls"], &["tidy"]] {
        for (option, variable) in [(&["--url", ""][..], None), (&[], Some(""))] {
            let mut command = command(LOCKKEEPER);
            command.envs(variable.map(|empty| ("LOCKKEEPER_URL", empty)));
            command.env("XDG_STATE_HOME", place.path("state")).current_dir(place.path(""));
            let said = fails_with(64, &command.args(option).args(args).output().unwrap());
            assert!(said.contains("empty") && said.contains("unset LOCKKEEPER_URL"), "{said}");
        }
    }
    assert!(!place.path("ran").exists() && !place.path("state").exists());
}

#[test]
fn what_is_not_utf_8_is_named_and_not_repeated() {
    let place = Place::new();
    let odd = OsStr::from_bytes(b"redis://:canary\xff@h");
    for args in [&["try", "k", "--", "true"][..], &["who", "k"]] {
        let mut command = command(LOCKKEEPER);
        let output = command.args(args).env("LOCKKEEPER_URL", odd).output().unwrap();
        let said = fails_with(64, &output);
        assert!(said.contains("LOCKKEEPER_URL is not UTF-8") && !said.contains("canary"), "{said}");
    }
    for (before, word) in
        [(&["who", "--url"][..], "word 3 of the"), (&["who", "--"], "a word of the")]
    {
        let mut command = command(LOCKKEEPER);
        let said = fails_with(64, &command.args(before).arg(odd).output().unwrap());
        assert!(said.contains(&format!("{word} command line is not UTF-8")), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
    // The command may have any words.
    let output = place.lockkeeper(&["run", "k", "--", "true"]).arg(odd).output().unwrap();
    assert_eq!(code(&output), 0);
}

#[test]
fn usage_errors_that_many_make_say_what_to_type() {
    let place = Place::new();
    for (args, hint) in [
        (&["run", "-k", "--", "true"][..], "a key must not begin with -"),
        (&["try", "--key", "--", "true"], "a key must not begin with -"),
        (&["run", "--tt", "1s", "k", "--", "true"], "did you mean --ttl?"),
        (&["try", "k", "--within", "5s", "--", "true"][..], "run --within"),
        (&["try", "k", "--within=5s", "--", "true"], "run --within"),
        (&["run", "k", "echo", "hi"], "put -- before the command"),
        (&["try", "k", "echo"], "put -- before the command"),
        (&["run", "k"], "put -- before the command"),
    ] {
        let said = fails_with(64, &place.output(args));
        assert!(said.contains(hint) && !said.contains("as a value"), "{args:?}: {said}");
    }
}

#[test]
fn an_unknown_scheme_is_told_which_there_are() {
    let said = fails_with(64, &Place::with_locks_at("frob://h".into()).output(&["who", "k"]));
    assert!(said.contains("file:") && said.contains("redis:"), "{said}");
    assert!(!said.contains("memory:"), "the command refuses it: {said}");
}

#[test]
fn odd_keys_are_ordinary_keys() {
    let place = Place::new();
    for key in ["a\nb", "../k", "/etc/passwd", ".", "..", " ", "🔒", "\x1b[2J", &"x".repeat(512)]
    {
        let output = place.output(&["run", key, "--", "sh", "-c", "printf %s \"$LOCKKEEPER_KEY\""]);
        assert_eq!(code(&output), 0, "{key:?}: {output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), key);
    }
    let listed = std::fs::read_dir(place.path("")).unwrap().count();
    assert_eq!(listed, 1, "something was written outside the folder of the locks");
}

#[test]
fn a_folder_that_cannot_be_ours_is_77() {
    let place = Place::new();
    place.write("locks", "I am a file");
    fails_with(77, &place.output(&["run", "k", "--", "touch", "ran"]));
    // Where nobody may create one, where none can be, and below a file.
    let below = format!("file://{}/below", place.path("locks").display());
    for url in ["file:///sys/no-such-folder", "file:///proc/no-such-folder", &below] {
        let mut command = command(LOCKKEEPER);
        command.args(["--url", url, "try", "k", "--", "true"]);
        fails_with(77, &command.output().unwrap());
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_foreign_file_is_77_and_stays_as_it_is() {
    let place = Place::new();
    assert_eq!(code(&place.output(&["run", "k", "--", "true"])), 0);
    let mut files =
        std::fs::read_dir(place.path("locks")).unwrap().map(|file| file.unwrap().path());
    let of_key = files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with('k'));
    let of_key = of_key.unwrap();
    std::fs::write(&of_key, "a diary").unwrap();
    fails_with(77, &place.output(&["run", "k", "--", "touch", "ran"]));
    assert_eq!(std::fs::read_to_string(&of_key).unwrap(), "a diary");
    assert!(!place.path("ran").exists());
}

#[test]
fn help_and_version_are_0_and_on_stdout() {
    let place = Place::new();
    for args in [&["--help"][..], &["-h"], &["--version"], &["run", "--help"], &["help", "who"]] {
        let output = place.output(args);
        assert_eq!((code(&output), &output.stderr[..]), (0, &b""[..]), "{args:?}");
        assert!(!output.stdout.is_empty());
    }
}
