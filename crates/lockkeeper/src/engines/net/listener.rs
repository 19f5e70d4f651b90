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
pub(crate) struct Listener(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// The last message, if it was not read; its room is kept for the next.
    message: Vec<u8>,
    has_message: bool,
    rung: bool,
    listener: Option<Waker>,
}

impl Listener {
    /// Makes it as good as new, if nobody else has it.
    pub(crate) fn forget_all(listener: &mut Arc<Self>) -> bool {
        let Some(listener) = Arc::get_mut(listener) else { return false };
        let heard = listener.0.get_mut().unwrap_or_else(PoisonError::into_inner);
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

/// The listeners at one connection, by what they listen for.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<ByTopic>);

type ByTopic = HashMap<Box<[u8]>, OfTopic, foldhash::fast::RandomState>;

/// Nearly always one.
#[derive(Debug)]
struct OfTopic {
    first: Arc<Listener>,
    more: Vec<Arc<Listener>>,
}

impl OfTopic {
    fn all(&self) -> impl Iterator<Item = &Arc<Listener>> {
        iter::once(&self.first).chain(&self.more)
    }
}

impl Listeners {
    /// Answers whether this is the first listener for the topic.
    pub(crate) fn add(&self, topic: &[u8], listener: &Arc<Listener>) -> bool {
        match locked(&self.0).entry(topic.into()) {
            Entry::Vacant(place) => {
                place.insert(OfTopic { first: Arc::clone(listener), more: Vec::new() });
                true
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                if !known.all().any(|other| Arc::ptr_eq(other, listener)) {
                    known.more.push(Arc::clone(listener));
                }
                false
            }
        }
    }

    /// Answers whether that was the last listener for the topic.
    pub(crate) fn remove(&self, topic: &[u8], listener: &Arc<Listener>) -> bool {
        let mut listeners = locked(&self.0);
        let Some(known) = listeners.get_mut(topic) else { return false };
        known.more.retain(|other| !Arc::ptr_eq(other, listener));
        if !Arc::ptr_eq(&known.first, listener) {
            return false;
        }
        if let Some(next) = known.more.pop() {
            known.first = next;
            return false;
        }
        listeners.remove(topic);
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
        more.iter().for_each(|listener| listener.tell(Some(message)));
    }

    /// The connection is gone: whoever listened must ask again.
    pub(crate) fn tell_the_end(&self) {
        let all = std::mem::take(&mut *locked(&self.0));
        all.values().flat_map(OfTopic::all).for_each(|listener| listener.tell(None));
    }
}
