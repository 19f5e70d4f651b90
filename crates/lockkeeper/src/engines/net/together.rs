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
