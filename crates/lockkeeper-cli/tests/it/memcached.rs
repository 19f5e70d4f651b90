//! The command with a lock that lives in a Memcached.

use lab::memcached::Memcached;

use crate::support::{Place, code, fails_with};

#[test]
fn one_at_a_time_and_the_holder_is_shown() {
    let server = Memcached::start().unwrap();
    let place = Place::with_locks_at(server.url());
    let mut holder = place.start(&[], "touch started; until test -e go; do sleep 0.01; done");
    let said = fails_with(75, &place.output(&["try", "k", "--", "true"]));
    assert!(said.contains(&format!("pid {}", holder.pid())), "{said}");
    let listed = place.output(&["ls"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains('k'), "{listed:?}");
    let waiter = place.spawn(&["run", "k", "--", "sh", "-c", "echo fence $LOCKKEEPER_FENCE"]);
    assert!(holder.is_running());
    place.write("go", "");
    assert_eq!(code(&holder.end()), 0);
    let waited = waiter.end();
    assert_eq!(code(&waited), 0, "{waited:?}");
    assert!(String::from_utf8_lossy(&waited.stdout).starts_with("fence"), "{waited:?}");
    let who = place.output(&["who", "k"]);
    assert_eq!(code(&who), 0, "{who:?}");
    assert_eq!(server.command("mg k v\r\n").unwrap(), "EN\r\n", "the lock is left behind");
}
