//! The end of a hold whose guard waits for it: told from the guard's own task, and mostly confirmed after one
//! trip. Only what takes more is made an errand.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    give_back, quick_call,
    steward::{Drivable, Errand},
};
use crate::{
    engine::{Claim, Released, error::Result},
    line::{
        Line,
        held::{Held, Taken},
        limit::CallLimit,
    },
};

/// Ends a hold at the engine, then asks again if somebody joined the line meanwhile.
pub(crate) struct Release {
    held: Arc<Held>,
    stage: Stage,
}

enum Stage {
    Sent(Sent),
    Errand(Errand<Result<()>>),
    Done,
}

impl Stage {
    fn errand(held: &Arc<Held>, taken: Taken) -> Self {
        Self::Errand(Box::pin(give_back::release(Arc::clone(held), taken)))
    }
}

/// A release that was sent the quick way.
struct Sent {
    claim: Box<dyn Claim>,
    limit: CallLimit,
}

impl Release {
    pub(crate) fn begin(held: Arc<Held>) -> Self {
        let stage = match held.take() {
            Taken::Claim(mut claim) => {
                match quick_call::send_now::<Released>(&mut *claim, &held.line.core.clock) {
                    Some(now) => Stage::Sent(Sent { claim, limit: CallLimit::new(now) }),
                    None => Stage::errand(&held, Taken::Claim(claim)),
                }
            }
            taken => Stage::errand(&held, taken),
        };
        Self { held, stage }
    }
}

impl Future for Release {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Self { held, stage } = &mut *self;
        let line = &held.line;
        if let Stage::Sent(sent) = stage {
            let answer = match Pin::new(&mut quick_call::answer(&mut *sent.claim)).poll(context) {
                Poll::Ready(answer) => answer.transpose(),
                Poll::Pending => Some(Err(ready!(sent.limit.poll(line, context)))),
            };
            sent.limit.end(line);
            if let Stage::Sent(Sent { claim, .. }) = std::mem::replace(stage, Stage::Done) {
                let Some(answer) = answer else {
                    *stage = Stage::errand(held, Taken::Claim(claim));
                    return self.poll(context);
                };
                let answer = give_back::given_back(line, claim, held.ttl, answer);
                give_back::ask_if_wanted(line);
                return Poll::Ready(answer.and_then(|released| give_back::confirm(line, released)));
            }
        }
        match stage {
            Stage::Errand(errand) => errand.as_mut().poll(context),
            Stage::Sent(_) | Stage::Done => Poll::Ready(Ok(())),
        }
    }
}

impl Drivable for Release {
    fn line(&self) -> &Line {
        &self.held.line
    }

    fn refusal(&self) -> Result<()> {
        Err(self.held.lost_error())
    }
}
