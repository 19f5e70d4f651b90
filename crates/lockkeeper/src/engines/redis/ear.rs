//! What claims hear from the server.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use crate::sync::locked;

/// Remembers the last message until it is taken, and that something happened until it is awaited.
#[derive(Debug, Default)]
pub(super) struct Ear(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    message: Option<Vec<u8>>,
    rung: bool,
    listener: Option<Waker>,
}

impl Ear {
    /// Tells of a message; without one, that it is worth asking again.
    pub(super) fn tell(&self, message: Option<&[u8]>) {
        let mut heard = locked(&self.0);
        if let Some(message) = message {
            heard.message = Some(message.to_vec());
        }
        heard.rung = true;
        let listener = heard.listener.take();
        drop(heard);
        listener.into_iter().for_each(Waker::wake);
    }

    pub(super) fn take_message(&self) -> Option<Vec<u8>> {
        locked(&self.0).message.take()
    }

    /// Ends when something was heard since the last time.
    pub(super) async fn rung(&self) {
        poll_fn(|context| {
            let mut heard = locked(&self.0);
            if std::mem::take(&mut heard.rung) {
                return Poll::Ready(());
            }
            let before = heard.listener.replace(context.waker().clone());
            drop(heard);
            drop(before);
            Poll::Pending
        })
        .await;
    }
}

/// The ears at one connection, by what they listen for.
#[derive(Debug, Default)]
pub(super) struct Ears(Mutex<ByTopic>);

type ByTopic = HashMap<Box<[u8]>, Vec<Arc<Ear>>, foldhash::fast::RandomState>;

impl Ears {
    /// Answers whether this is the first ear for the topic.
    pub(super) fn add(&self, topic: &[u8], ear: &Arc<Ear>) -> bool {
        let mut ears = locked(&self.0);
        let known = ears.entry(topic.into()).or_default();
        if !known.iter().any(|other| Arc::ptr_eq(other, ear)) {
            known.push(Arc::clone(ear));
        }
        known.len() == 1
    }

    /// Answers whether that was the last ear for the topic.
    pub(super) fn remove(&self, topic: &[u8], ear: &Arc<Ear>) -> bool {
        let mut ears = locked(&self.0);
        let Some(known) = ears.get_mut(topic) else { return false };
        known.retain(|other| !Arc::ptr_eq(other, ear));
        let is_last = known.is_empty();
        if is_last {
            ears.remove(topic);
        }
        is_last
    }

    /// Whether anybody listens for the topic.
    pub(super) fn has(&self, topic: &[u8]) -> bool {
        locked(&self.0).contains_key(topic)
    }

    pub(super) fn tell(&self, topic: &[u8], message: &[u8]) {
        let (first, more) = match locked(&self.0).get(topic).map(|known| &known[..]) {
            // Nearly always one.
            Some([first, more @ ..]) => (Arc::clone(first), more.to_vec()),
            _ => return,
        };
        first.tell(Some(message));
        more.iter().for_each(|ear| ear.tell(Some(message)));
    }

    /// The connection is gone: whoever listened must ask again.
    pub(super) fn tell_the_end(&self) {
        let all = std::mem::take(&mut *locked(&self.0));
        all.values().flatten().for_each(|ear| ear.tell(None));
    }
}
