//! Who waits where for an engine at a distance.

use std::thread;

use crate::distant::Distant;

#[tokio::test]
async fn what_is_asked_and_released_is_sent_by_the_callers_own_thread() {
    let distant = Distant::default();
    let locks = distant.locks();
    for _ in 0..3 {
        locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    }
    let here = [thread::current().id(); 3];
    assert_eq!(distant.wire.attempts.sent_by(), here);
    assert_eq!(distant.wire.releases.sent_by(), here);
}
