//! The lock is lost while the command runs.

use crate::support::{Place, code, is_alive, until};

#[test]
fn term_asks_the_command_and_its_children_to_end() {
    let place = Place::new();
    place.write(
        "child.sh",
        "trap 'echo child >> told; exit' TERM; touch started; while :; do sleep 0.01; done",
    );
    let script =
        "trap 'echo command >> told; exit 3' TERM; sh child.sh & while :; do sleep 0.01; done";
    let holder = place.start(&[], script);
    place.remove_lock_file();
    let output = holder.end();
    assert_eq!(code(&output), 79);
    let said = String::from_utf8(output.stderr).unwrap();
    let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("lockkeeper: ")).collect();
    assert_eq!(ours.len(), 2, "{said}");
    assert!(ours[0].contains("lost \"k\"") && ours[1].contains("stopped \"sh\""), "{said}");
    let told = place.read("told");
    let mut told: Vec<&str> = told.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["child", "command"]);
}

#[test]
fn what_does_not_end_within_the_grace_is_killed() {
    let place = Place::new();
    place.write("deaf.sh", "trap '' TERM; echo $$ >> pids; while :; do sleep 0.01; done");
    let script =
        "setsid sh deaf.sh & sh deaf.sh & touch started; trap 'exit 0' TERM; wait; wait; wait";
    let holder = place.start(&["--grace", "300ms"], script);
    until("the deaf ones run", || place.pids("pids").len() == 2);
    place.remove_lock_file();
    assert_eq!(code(&holder.end()), 79);
    assert!(!place.pids("pids").into_iter().any(is_alive));
}

#[test]
fn kill_asks_nobody() {
    let place = Place::new();
    let script =
        "trap 'touch asked' TERM; echo $$ > pid; touch started; while :; do sleep 0.01; done";
    let holder = place.start(&["--on-loss", "kill"], script);
    place.remove_lock_file();
    assert_eq!(code(&holder.end()), 79);
    assert!(!place.path("asked").exists());
    assert!(!is_alive(place.pids("pid")[0]));
}

#[test]
fn a_loss_is_told_also_after_many_checks() {
    let place = Place::new();
    let mut holder = place.start(&[], "touch started; sleep 600");
    std::thread::sleep(std::time::Duration::from_millis(700));
    place.remove_lock_file();
    until("the loss has ended it", || !holder.is_running());
    assert_eq!(code(&holder.end()), 79);
}

#[test]
fn ignore_says_so_and_lets_it_run() {
    let place = Place::new();
    let script = "touch started; until test -e go; do sleep 0.01; done; exit 7";
    let mut holder =
        place.lockkeeper(&["run", "--on-loss", "ignore", "k", "--", "sh", "-c", script]);
    holder.stderr(std::fs::File::create(place.path("said")).unwrap());
    let mut holder = holder.spawn().unwrap();
    until("the command runs", || place.path("started").exists());
    place.remove_lock_file();
    until("the loss is told", || place.read("said").ends_with('\n'));
    place.write("go", "");
    assert_eq!(holder.wait().unwrap().code(), Some(7));
    let said = place.read("said");
    assert!(said.starts_with("lockkeeper: lost \"k\"") && said.lines().count() == 1, "{said}");
}
