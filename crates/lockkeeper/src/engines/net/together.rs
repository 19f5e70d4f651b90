//! Several futures at once.

use std::{future::poll_fn, pin::Pin, task::Poll};

/// Ends when all have ended; answers in their order.
pub(crate) async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Ends with the first that is good, and drops the others; else with all errors, in their order.
pub(crate) async fn first_good<T, E, F>(futures: Vec<F>) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut errors: Vec<Option<E>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, error) in futures.iter_mut().zip(&mut errors) {
            if error.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(Ok(good)) => return Poll::Ready(Ok(good)),
                    Poll::Ready(Err(bad)) => *error = Some(bad),
                    Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending {
            return Poll::Pending;
        }
        Poll::Ready(Err(errors.iter_mut().filter_map(Option::take).collect()))
    })
    .await
}

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
