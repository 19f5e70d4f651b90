//! A run inside a run.

use lab::redis::Server;

use crate::support::{LOCKKEEPER, Place, code, fails_with, until};

/// Runs `lockkeeper run k -- sh -c SCRIPT` to its end; in the script, `$0` is the command and `$1` the
/// URL. A hang fails the test.
fn nested(place: &Place, script: &str) -> std::process::Output {
    let url = place.url();
    let mut outer = place.spawn(&["run", "k", "--", "sh", "-c", script, LOCKKEEPER, &url]);
    until("both runs have ended", || !outer.is_running());
    outer.end()
}

fn is_refused(place: &Place, script: &str) {
    let script = format!("echo $PPID > outer; {script}");
    let said = fails_with(77, &nested(place, &script));
    let warden = place.pids("outer")[0];
    assert!(said.contains("\"k\"") && said.contains("(pid "), "{said}");
    // The outer run is gone by now, with its warden; the number it said is that of neither of us.
    assert!(!said.contains(&format!("(pid {warden})")), "{said}");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_key_that_the_run_around_us_holds_is_refused_at_once() {
    let place = Place::new();
    is_refused(&place, "\"$0\" --url \"$1\" run k -- touch ran");
    is_refused(&place, "\"$0\" --url \"$1\" run --within 1h k -- touch ran");
    // However far outside it is, and whatever is in between.
    let between = "\"$0\" --url \"$1\" run other -- \"$0\" --url \"$1\" run k -- touch ran";
    is_refused(&place, between);
    is_refused(&place, "setsid -w \"$0\" --url \"$1\" run k -- touch ran");
}

#[test]
fn the_outer_run_is_named() {
    let place = Place::new();
    let script = "touch started; until test -e go; do sleep 0.01; done; \
                  \"$0\" --url \"$1\" run k -- true";
    let url = place.url();
    let outer = place.spawn(&["run", "k", "--", "sh", "-c", script, LOCKKEEPER, &url]);
    let pid = outer.pid();
    place.write("go", "");
    let said = fails_with(77, &outer.end());
    assert!(said.contains(&format!("(pid {pid})")), "{said}");
}

#[test]
fn a_try_inside_is_busy_as_ever() {
    fails_with(75, &nested(&Place::new(), "\"$0\" --url \"$1\" try k -- true"));
}

#[test]
fn it_is_refused_on_every_engine_also_on_those_that_cannot_tell_who_holds_a_lock() {
    let server = Server::start().unwrap();
    for parameters in ["", "?dialect=plain", "?dialect=redisson"] {
        let place = Place::with_locks_at(server.url() + parameters);
        is_refused(&place, "\"$0\" --url \"$1\" run k -- touch ran");
    }
}

#[test]
fn the_same_key_on_another_engine_is_another_lock() {
    let (place, other) = (Place::new(), Place::new());
    let script = format!("\"$0\" --url {} run k -- true", other.url());
    assert_eq!(code(&nested(&place, &script)), 0);
    let server = Server::start().unwrap();
    let script = format!("\"$0\" --url '{}?dialect=plain' run k -- true", server.url());
    assert_eq!(code(&nested(&place, &script)), 0);
}

#[test]
fn a_variable_left_by_a_run_that_has_ended_fools_nobody() {
    let place = Place::new();
    let later = "until test -e go; do sleep 0.01; done; \"$0\" --url \"$1\" run k -- touch ran";
    place.write("later.sh", later);
    let script = "printenv LOCKKEEPER_HELD > held; \
                  sh -c '. ./later.sh' \"$0\" \"$1\" > /dev/null 2>&1 &";
    assert_eq!(code(&nested(&place, script)), 0);
    // Another one holds the key now: the process that was left behind waits like everybody.
    let holder = place.start(&[], "touch started; until test -e end; do sleep 0.01; done");
    place.write("go", "");
    place.until_waiting(1);
    place.write("end", "");
    assert_eq!(code(&holder.end()), 0);
    until("its turn has come", || place.path("ran").exists());
    // And what the variable said is no reason to refuse anybody.
    for variable in [place.read("held").trim(), "1:0:0:k x:y:z:k :::: %", "", "1:1:1:%6b"] {
        let mut command = place.lockkeeper(&["run", "k", "--", "true"]);
        assert_eq!(code(&command.env("LOCKKEEPER_HELD", variable).output().unwrap()), 0);
    }
}

#[test]
fn a_run_around_us_that_lost_the_key_is_not_waited_out() {
    let place = Place::new();
    let script = "touch started; until test -e go; do sleep 0.01; done; \
                  exec \"$0\" --url \"$1\" run k -- touch ran";
    let url = place.url();
    let words = ["run", "--on-loss", "ignore", "k", "--", "sh", "-c", script, LOCKKEEPER, &url];
    let outer = place.spawn(&words);
    until("the command runs", || place.path("started").exists());
    place.remove_lock_file();
    place.write("go", "");
    assert_eq!(code(&outer.end()), 0);
    assert!(place.path("ran").exists());
}
