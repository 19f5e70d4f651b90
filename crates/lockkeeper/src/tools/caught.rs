//! A panic of an engine becomes the answer of the call it came from: whoever made that call is told, and
//! nobody else is harmed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use async_trait::async_trait;

use crate::engine::{
    Attempt, Claim, Moment, Released, Standing,
    error::{Error, ErrorKind, Result},
};

/// Calls an engine.
///
/// Whatever the call had in hands may be half done afterwards. So a claim whose call panicked is only given
/// back, which it must stand in any state.
pub(crate) fn calling<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| Error::panicked(&*panic))
}

/// Looks for the answer of an engine.
pub(crate) fn polling<T>(poll: impl FnOnce() -> Poll<Result<T>>) -> Poll<Result<T>> {
    calling(poll).unwrap_or_else(|error| Poll::Ready(Err(error)))
}

/// Makes a call of an engine that answers later.
pub(crate) fn caught<F>(call: impl FnOnce() -> F) -> Caught<F> {
    Caught(calling(call).map_err(Some))
}

/// A claim whose call panicked: it can be given back, and nothing else.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) Box<dyn Claim>);

#[async_trait]
impl Claim for Broken {
    async fn attempt(&mut self, _now: Moment) -> Result<Attempt> {
        Err(Error::new(ErrorKind::Other, "an earlier call of the engine panicked"))
    }

    async fn renew(&mut self, _now: Moment) -> Result<Standing> {
        Err(Error::new(ErrorKind::Other, "an earlier call of the engine panicked"))
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.0.release(now).await
    }
}

/// A call of an engine; see [`caught`].
pub(crate) struct Caught<F>(Result<F, Option<Error>>);

impl<T, F: Future<Output = Result<T>> + Unpin> Future for Caught<F> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        match &mut self.0 {
            Ok(call) => polling(|| Pin::new(call).poll(context)),
            Err(error) => error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use super::*;
    use crate::tools::block_on::block_on;

    #[test]
    fn a_panic_is_an_answer_wherever_it_comes_from() {
        let in_the_call = caught(|| -> Ready<Result<()>> { panic!("in the call") });
        let in_the_answer = caught(|| {
            Box::pin(async {
                assert_eq!(1, 2, "in the answer");
                Ok(())
            })
        });
        for (answer, why) in [
            (block_on(in_the_call), "the engine panicked: in the call"),
            (block_on(in_the_answer), "the engine panicked: assertion `left == right` failed: in"),
            (calling(|| std::panic::panic_any(7)), "the engine panicked"),
        ] {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Other);
            assert!(error.is_panic() && error.to_string().starts_with(why), "{error}");
        }
        assert_eq!(block_on(caught(|| ready(Ok(7)))).unwrap(), 7);
    }
}
