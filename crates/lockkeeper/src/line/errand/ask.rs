//! The question of one who has just opened a line: asked from its own task, and mostly answered after one
//! trip. Only what takes more is made an errand.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    quick_call,
    steward::{Drivable, Errand},
};
use crate::{
    engine::{Answers, Attempt, Claim},
    line::{Line, errand, limit::CallLimit, seat::Seat},
    time::clock::Moment,
    tools::caught::caught,
};

/// Asks for whoever is first in line, until the line is served or empty.
pub(crate) struct Ask {
    line: Line,
    stage: Stage,
}

enum Stage {
    Sent(Sent),
    Errand(Errand),
    Done,
}

/// A question that was sent the quick way.
struct Sent {
    first: Arc<Seat>,
    claim: Box<dyn Claim>,
    at: Moment,
    limit: CallLimit,
}

impl Ask {
    /// Asks, as far as that goes at once; nothing if that was all.
    pub(crate) fn begin(line: &Line) -> Option<Self> {
        let (first, spare) = line.first_or_idle()?;
        let Some((mut claim, at)) = errand::claim_for(line, &first, spare) else {
            return Some(Self { line: line.clone(), stage: Stage::Errand(errand::asking(line)) });
        };
        let stage = match line.core.profile.answers {
            Answers::AtOnce => match errand::at_once(caught(|| claim.attempt(at))) {
                Some(answer) => Stage::Errand(errand::answered(line, first, claim, at, answer)?),
                // It broke its promise; the claim frees what it may have taken.
                None => Stage::Errand(errand::asking(line)),
            },
            Answers::Later if quick_call::send::<Attempt>(&mut *claim, at) => {
                Stage::Sent(Sent { first, claim, at, limit: CallLimit::new(at) })
            }
            Answers::Later => Stage::Errand(errand::asking_with(line, first, claim, at)),
        };
        Some(Self { line: line.clone(), stage })
    }
}

impl Future for Ask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { line, stage } = &mut *self;
        if let Stage::Sent(sent) = stage {
            let answer = match Pin::new(&mut quick_call::answer(&mut *sent.claim)).poll(context) {
                Poll::Ready(answer) => answer.transpose(),
                Poll::Pending => Some(Err(ready!(sent.limit.poll(line, context)))),
            };
            sent.limit.end(line);
            if let Stage::Sent(sent) = std::mem::replace(stage, Stage::Done) {
                let Sent { first, claim, at, .. } = sent;
                let errand = match answer {
                    Some(answer) => errand::answered(line, first, claim, at, answer),
                    None => Some(errand::asking_with(line, first, claim, at)),
                };
                *stage = errand.map_or(Stage::Done, Stage::Errand);
            }
        }
        match stage {
            Stage::Errand(errand) => errand.as_mut().poll(context),
            Stage::Sent(_) | Stage::Done => Poll::Ready(()),
        }
    }
}

impl Drivable for Ask {
    fn line(&self) -> &Line {
        &self.line
    }

    fn refusal(&self) {}
}
