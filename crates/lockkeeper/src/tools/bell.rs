//! What a waiter listens to.

use std::{
    future::poll_fn,
    sync::Mutex,
    task::{Poll, Waker},
};

use super::sync::{keep_waker, locked, wake};

/// Remembers one ring until it is heard.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rung: bool,
    listener: Option<Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut state = locked(&self.0);
        state.rung = true;
        let listener = state.listener.take();
        drop(state);
        listener.into_iter().for_each(wake);
    }

    pub(crate) async fn rung(&self) {
        poll_fn(|context| {
            let mut state = locked(&self.0);
            if std::mem::take(&mut state.rung) {
                return Poll::Ready(());
            }
            keep_waker(state, |state| &mut state.listener, context.waker());
            Poll::Pending
        })
        .await;
    }
}
