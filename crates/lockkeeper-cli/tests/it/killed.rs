//! Nothing of the command outlives its lock, whoever is killed.

use nix::sys::signal::Signal;

use crate::support::{N_MEMBERS, Place, children_of, code, fails_with, is_alive, send, until};

/// Becomes the command when it has a child already.
const BESIDE_A_STRANGER: &str = "sleep 600 & echo $! > before; exec \"$0\" \"$@\"";

#[test]
fn kill_9_of_the_command_ends_all_before_the_next_holder_starts() {
    for _ in 0..5 {
        let place = Place::with_family();
        let holder = place.spawn(&["run", "k", "--", "sh", "family.sh"]);
        place.until_at_work(N_MEMBERS);
        let next = place.spawn(&["run", "k", "--", "sh", "look.sh"]);
        place.until_waiting(1);
        holder.signal(Signal::SIGKILL);
        assert_eq!(code(&next.end()), 0);
        place.nobody_was_seen();
    }
}

#[test]
fn kill_9_of_the_warden_ends_all_before_the_next_holder_starts() {
    let place = Place::with_family();
    let holder = place.spawn(&["run", "k", "--", "sh", "family.sh"]);
    place.until_at_work(N_MEMBERS);
    let next = place.spawn(&["run", "k", "--", "sh", "look.sh"]);
    place.until_waiting(1);
    let [warden] = children_of(holder.pid())[..] else { panic!("not one warden") };
    send(warden, Signal::SIGKILL);
    let said = fails_with(70, &holder.end());
    assert!(said.contains("warden"), "{said}");
    assert_eq!(code(&next.end()), 0);
    place.nobody_was_seen();
}

#[test]
fn kill_9_of_both_ends_the_command_itself() {
    let place = Place::new();
    let holder = place.start(&[], "echo $$ > pid; touch started; exec sleep 600");
    let [warden] = children_of(holder.pid())[..] else { panic!("not one warden") };
    // Stopped first, so that neither sees the end of the other.
    for pid in [warden, holder.pid()] {
        send(pid, Signal::SIGSTOP);
    }
    for pid in [warden, holder.pid()] {
        send(pid, Signal::SIGKILL);
    }
    let child = place.pids("pid")[0];
    until("the child is gone", || !is_alive(child));
    assert_eq!(code(&place.output(&["run", "k", "--", "true"])), 0);
}

#[test]
fn kill_9_of_both_leaves_the_lock_with_the_descendants() {
    let place = Place::with_family();
    let holder = place.spawn(&["run", "k", "--", "sh", "family.sh"]);
    place.until_at_work(N_MEMBERS);
    let [warden] = children_of(holder.pid())[..] else { panic!("not one warden") };
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in [warden, holder.pid()] {
            send(pid, signal);
        }
    }
    drop(holder);
    until("the command is gone", || !is_alive(place.pids("pids")[0]));
    let mut left: Vec<i32> = place.pids("pids").into_iter().filter(|&pid| is_alive(pid)).collect();
    assert_eq!(left.len(), N_MEMBERS - 1, "of {:?}", place.pids("pids"));
    while let Some(pid) = left.pop() {
        assert!(place.is_busy(), "while {pid} runs");
        send(pid, Signal::SIGKILL);
        until("it is gone", || !is_alive(pid));
    }
    until("the lock is free", || !place.is_busy());
}

#[test]
fn kill_9_of_the_warden_beside_strangers_leaves_the_lock_with_the_descendants() {
    let place = Place::with_family();
    let mut shell = place.in_shell(BESIDE_A_STRANGER, &["run", "k", "--", "sh", "family.sh"]);
    let mut shell = shell.spawn().unwrap();
    place.until_at_work(N_MEMBERS);
    let before = place.pids("before")[0];
    let others = children_of(shell.id().try_into().unwrap());
    let warden = others.into_iter().find(|&pid| pid != before).unwrap();
    send(warden, Signal::SIGKILL);
    assert_eq!(shell.wait().unwrap().code(), Some(70));
    let left: Vec<i32> = place.pids("pids").into_iter().filter(|&pid| is_alive(pid)).collect();
    assert!(!left.is_empty() && place.is_busy());
    left.iter().chain([&before]).for_each(|&pid| send(pid, Signal::SIGKILL));
    until("the lock is free", || !place.is_busy());
}

#[test]
fn children_from_before_are_not_ours_to_kill() {
    let place = Place::new();
    let run = ["run", "k", "--", "sh", "-c", "touch started; exec sleep 600"];
    let mut shell = place.in_shell(BESIDE_A_STRANGER, &run).spawn().unwrap();
    until("the command runs", || place.path("started").exists());
    let before = place.pids("before")[0];
    let others = children_of(shell.id().try_into().unwrap());
    let warden = others.into_iter().find(|&pid| pid != before).unwrap();
    send(warden, Signal::SIGKILL);
    assert_eq!(shell.wait().unwrap().code(), Some(70));
    assert!(is_alive(before));
    send(before, Signal::SIGKILL);
}

#[test]
fn what_the_command_leaves_behind_is_left_alone() {
    let place = Place::new();
    let script = "sleep 600 > /dev/null 2>&1 & echo $! > pid; exit 3";
    let output = place.output(&["run", "k", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 3);
    let left = place.pids("pid")[0];
    assert!(is_alive(left));
    assert_eq!(code(&place.output(&["try", "k", "--", "true"])), 0);
    send(left, Signal::SIGKILL);
}

#[test]
fn no_process_of_ours_stays_behind() {
    let place = Place::new();
    let script = "\"$0\" \"$@\"; grep -l '^PPid:.'$$ /proc/[0-9]*/status | wc -l";
    let output = place.in_shell(script, &["run", "k", "--", "sh", "-c", "echo $PPID"]).output();
    let output = String::from_utf8(output.unwrap().stdout).unwrap();
    let warden: i32 = output.lines().next().unwrap().parse().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{warden}")).exists(), "not even a zombie");
}
