//! Many at once.

use crate::support::{LOCKKEEPER, Place, code};

#[test]
fn twenty_processes_count_without_a_miss() {
    const N_PROCESSES: usize = 20;
    const N_TURNS: usize = 20;
    let place = Place::new();
    place.write("count", "0");
    place.write("add.sh", "read n < count; echo $((n + 1)) > count");
    std::thread::scope(|scope| {
        for _ in 0..N_PROCESSES {
            scope.spawn(|| {
                for _ in 0..N_TURNS {
                    assert_eq!(code(&place.output(&["run", "k", "--", "sh", "add.sh"])), 0);
                }
            });
        }
    });
    assert_eq!(place.read("count").trim_end(), (N_PROCESSES * N_TURNS).to_string());
}

#[test]
fn different_keys_do_not_wait_for_each_other() {
    let place = Place::new();
    let script = "exec \"$0\" --url \"$1\" run inner -- true";
    let output =
        place.output(&["run", "outer", "--", "sh", "-c", script, LOCKKEEPER, &place.url()]);
    assert_eq!(code(&output), 0, "{output:?}");
}
