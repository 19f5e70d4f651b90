//! Several futures at once, until those that are ready decide.

use std::{future::poll_fn, pin::Pin, task::Poll};

/// Ends as soon as `decide` finds an answer in what has come so far; the rest is dropped.
/// It must find one when everything has come.
pub(crate) async fn join_until<F: Future + Unpin, T>(
    futures: impl Iterator<Item = F>,
    decide: impl Fn(&[Option<F::Output>]) -> Option<T>,
) -> (T, Vec<Option<F::Output>>) {
    let mut futures: Vec<F> = futures.collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let decision = poll_fn(|context| {
        let mut has_news = false;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = Pin::new(future).poll(context)
            {
                *output = Some(ready);
                has_news = true;
            }
        }
        match has_news.then(|| decide(&outputs)).flatten() {
            Some(decision) => Poll::Ready(decision),
            None => Poll::Pending,
        }
    })
    .await;
    (decision, outputs)
}
