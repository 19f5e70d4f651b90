//! The embedded default: which folder it is, here and for a `lockkeeper` inside the command.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::support::{LOCKKEEPER, Place, code, command, fails_with, until};

/// `lockkeeper` without a URL, with this state folder.
fn with_state(place: &Place, state: &Path, args: &[&str]) -> Command {
    let mut command = command(LOCKKEEPER);
    command.args(args).env("XDG_STATE_HOME", state).env("LOCKKEEPER", LOCKKEEPER);
    command.current_dir(place.path(""));
    command
}

#[test]
fn a_lockkeeper_inside_the_command_uses_the_same_folder_whatever_its_environment_says() {
    let place = Place::new();
    // Letters that mean something in a URL.
    for state in ["plain", "a b%20?c#d@é"] {
        let state = place.path(state);
        let elsewhere = "env XDG_STATE_HOME=\"$PWD/x\" HOME=\"$PWD/y\" \"$LOCKKEEPER\"";
        for (inner, expected) in [("try k -- touch ran", 75), ("run k -- touch ran", 77)] {
            let script = format!("{elsewhere} {inner}");
            let run = ["run", "k", "--", "sh", "-c", &script];
            fails_with(expected, &with_state(&place, &state, &run).output().unwrap());
        }
        // Another key in between changes nothing.
        let script = format!("{elsewhere} run other -- {elsewhere} run k -- touch ran");
        let run = ["run", "k", "--", "sh", "-c", &script];
        let said = fails_with(77, &with_state(&place, &state, &run).output().unwrap());
        assert!(said.contains("is held by the run this one is part of"), "{said}");
    }
    assert!(!["ran", "x", "y"].iter().any(|name| place.path(name).exists()));
}

/// `run` and the library find the folder each by itself.
#[test]
fn run_and_who_agree_on_the_folder() {
    let place = Place::new();
    let (state, home) = (place.path("state"), place.path("home"));
    let variables = [
        [state.as_path(), &home],
        [Path::new("relative"), &home],
        [Path::new(""), &home],
        [&state, Path::new("")],
    ];
    for [state, home] in variables {
        fs::remove_file(place.path("started")).unwrap_or_default();
        let script = "touch started; until test -e go; do sleep 0.01; done";
        let mut holder = with_state(&place, state, &["run", "k", "--", "sh", "-c", script]);
        let mut holder = holder.env("HOME", home).spawn().unwrap();
        until("the command runs", || place.path("started").exists());
        let mut who = with_state(&place, state, &["who", "k"]);
        let who = String::from_utf8(who.env("HOME", home).output().unwrap().stdout).unwrap();
        place.write("go", "");
        assert_eq!(holder.wait().unwrap().code(), Some(0));
        fs::remove_file(place.path("go")).unwrap();
        assert!(who.contains(&format!("\nholds  {}  ", holder.id())), "{state:?} {home:?}: {who}");
    }
}

#[test]
fn a_folder_of_the_run_around_us_that_is_not_ours_is_refused_and_told_what_to_do() {
    let place = Place::new();
    fs::create_dir(place.path("locks")).unwrap();
    // As good as a folder of another user, for which the test would have to become one.
    fs::set_permissions(place.path("locks"), fs::Permissions::from_mode(0o777)).unwrap();
    for args in [&["run", "k", "--", "touch", "ran"][..], &["who", "k"], &["ls"], &["tidy"]] {
        let mut inner = command(LOCKKEEPER);
        inner.args(args).env("LOCKKEEPER_URL", place.url()).current_dir(place.path(""));
        let said = fails_with(77, &inner.output().unwrap());
        assert!(!said.contains("LOCKKEEPER_URL"), "{said}");
        inner.env("LOCKKEEPER_HELD", "1:1:1:k");
        let said = fails_with(77, &inner.output().unwrap());
        assert!(said.contains("chmod") && said.contains("unset LOCKKEEPER_URL"), "{said}");
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_user_without_a_home_is_told_how_to_name_another_folder() {
    let place = Place::new();
    let nowhere = Path::new("/dev/null/home");
    for args in [&["run", "k", "--", "touch", "ran"][..], &["who", "k"], &["ls"], &["tidy"]] {
        let said = fails_with(77, &with_state(&place, nowhere, args).output().unwrap());
        assert!(said.contains("set XDG_STATE_HOME, or give --url file:///"), "{said}");
    }
    // One who has named a folder knows how to.
    let named = ["--url", "file:///dev/null/named", "who", "k"];
    let said = fails_with(77, &with_state(&place, nowhere, &named).output().unwrap());
    assert!(!said.contains("XDG_STATE_HOME"), "{said}");
    let other =
        with_state(&place, nowhere, &["--url", &place.url(), "run", "k", "--", "true"]).output();
    assert_eq!(code(&other.unwrap()), 0);
}
