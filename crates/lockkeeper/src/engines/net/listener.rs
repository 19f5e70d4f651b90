//! What claims hear from the server.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::poll_fn,
    iter,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
};

use crate::tools::sync::{keep_waker, locked, wake};

/// Remembers the last message until it is taken, and that something happened until it is awaited.
#[derive(Debug, Default)]
pub(crate) struct Ear(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// The last message, if it was not read; its room is kept for the next.
    message: Vec<u8>,
    has_message: bool,
    rung: bool,
    listener: Option<Waker>,
}

impl Ear {
    /// Makes it as good as new, if nobody else has it.
    pub(crate) fn forget_all(ear: &mut Arc<Self>) -> bool {
        let Some(ear) = Arc::get_mut(ear) else { return false };
        let heard = ear.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        (heard.has_message, heard.rung, heard.listener) = (false, false, None);
        true
    }

    /// Tells of a message; without one, that it is worth asking again.
    pub(crate) fn tell(&self, message: Option<&[u8]>) {
        let mut heard = locked(&self.0);
        if let Some(message) = message {
            heard.message.clear();
            heard.message.extend_from_slice(message);
            heard.has_message = true;
        }
        heard.rung = true;
        let listener = heard.listener.take();
        drop(heard);
        listener.into_iter().for_each(wake);
    }

    /// Reads the last message, once.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut heard = locked(&self.0);
        if std::mem::take(&mut heard.has_message) { read(&heard.message) } else { None }
    }

    /// Ends when something was heard since the last time.
    pub(crate) async fn rung(&self) {
        poll_fn(|context| {
            let mut heard = locked(&self.0);
            if std::mem::take(&mut heard.rung) {
                return Poll::Ready(());
            }
            keep_waker(heard, |heard| &mut heard.listener, context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// The ears at one connection, by what they listen for.
#[derive(Debug, Default)]
pub(crate) struct Ears(Mutex<ByTopic>);

type ByTopic = HashMap<Box<[u8]>, Listeners, foldhash::fast::RandomState>;

/// Nearly always one.
#[derive(Debug)]
struct Listeners {
    first: Arc<Ear>,
    more: Vec<Arc<Ear>>,
}

impl Listeners {
    fn all(&self) -> impl Iterator<Item = &Arc<Ear>> {
        iter::once(&self.first).chain(&self.more)
    }
}

impl Ears {
    /// Answers whether this is the first ear for the topic.
    pub(crate) fn add(&self, topic: &[u8], ear: &Arc<Ear>) -> bool {
        match locked(&self.0).entry(topic.into()) {
            Entry::Vacant(place) => {
                place.insert(Listeners { first: Arc::clone(ear), more: Vec::new() });
                true
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                if !known.all().any(|other| Arc::ptr_eq(other, ear)) {
                    known.more.push(Arc::clone(ear));
                }
                false
            }
        }
    }

    /// Answers whether that was the last ear for the topic.
    pub(crate) fn remove(&self, topic: &[u8], ear: &Arc<Ear>) -> bool {
        let mut ears = locked(&self.0);
        let Some(known) = ears.get_mut(topic) else { return false };
        known.more.retain(|other| !Arc::ptr_eq(other, ear));
        if !Arc::ptr_eq(&known.first, ear) {
            return false;
        }
        if let Some(next) = known.more.pop() {
            known.first = next;
            return false;
        }
        ears.remove(topic);
        true
    }

    /// Whether anybody listens for the topic.
    pub(crate) fn has(&self, topic: &[u8]) -> bool {
        locked(&self.0).contains_key(topic)
    }

    pub(crate) fn tell(&self, topic: &[u8], message: &[u8]) {
        let (first, more) = match locked(&self.0).get(topic) {
            Some(known) => (Arc::clone(&known.first), known.more.clone()),
            None => return,
        };
        first.tell(Some(message));
        more.iter().for_each(|ear| ear.tell(Some(message)));
    }

    /// The connection is gone: whoever listened must ask again.
    pub(crate) fn tell_the_end(&self) {
        let all = std::mem::take(&mut *locked(&self.0));
        all.values().flat_map(Listeners::all).for_each(|ear| ear.tell(None));
    }
}
