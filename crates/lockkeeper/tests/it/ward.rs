//! What a lock protects in a storm of faults, and who wants that lock.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use lockkeeper::Lock;

/// What is protected by one lock.
#[derive(Debug, Default)]
pub(crate) struct Ward {
    is_in_use: AtomicBool,
    pub(crate) last_fence: AtomicU64,
    pub(crate) n_uses: AtomicU64,
}

impl Ward {
    /// Uses it for a moment; nobody else may do so meanwhile, and nobody with an older fence after.
    async fn use_it(&self, fence: u64) {
        assert!(!self.is_in_use.swap(true, Ordering::SeqCst), "two hold the lock");
        let last = self.last_fence.swap(fence, Ordering::SeqCst);
        assert!(fence > last || fence == 0, "the fence {fence} came after {last}");
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
        self.n_uses.fetch_add(1, Ordering::SeqCst);
        self.is_in_use.store(false, Ordering::SeqCst);
    }
}

/// Wants the lock in one way or another until it is told that the storm is over.
pub(crate) async fn want(lock: Lock, ward: &Ward, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        let patience = Duration::from_millis(fastrand::u64(0..300));
        // Errors are part of the storm; only what is granted counts.
        let guard = match fastrand::u8(0..4) {
            0 => lock.try_acquire().await.unwrap_or_default(),
            1 => lock.acquire_within(patience).await.ok(),
            2 => tokio::time::timeout(patience, lock.acquire()).await.ok().and_then(Result::ok),
            _ => lock.acquire().await.ok(),
        };
        let Some(guard) = guard else { continue };
        ward.use_it(guard.fence()).await;
        assert!(guard.is_held(), "lost: {guard:?}");
        if fastrand::bool() {
            // Whether its answer comes or not.
            let _ = guard.release().await;
        }
    }
}
