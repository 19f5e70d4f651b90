//! One task's place in one line, and the wait for its answer.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    Joined, Line,
    errand::{ask::Ask, steward::Driven},
    seat::{Answer, Seat, Wish},
    turn::Turn,
};
use crate::{
    engine::error::{Call, Result},
    time::{alarms::Alarm, clock::Moment},
    tools::linked_queue::Place,
};

/// A place in line. Dropping it leaves the line; a turn that was won but never seen passes on.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    // Owned only in the rare case that the line was closed and had to be opened anew.
    line: Cow<'a, Line>,
    seat: Arc<Seat>,
    place: Place,
    is_answered: bool,
}

impl<'a> Ticket<'a> {
    pub(crate) fn new(line: Cow<'a, Line>, seat: Arc<Seat>, place: Place) -> Self {
        Self { line, seat, place, is_answered: false }
    }

    /// Leaves the line; an answer that came at the same instant counts.
    fn leave(&mut self) -> Option<Answer> {
        if std::mem::replace(&mut self.is_answered, true) {
            return None;
        }
        self.line.leave(self.place);
        self.seat.leave()
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.line.core.is_this_process() {
            drop(self.leave());
        }
    }
}

/// The wait for the answer, with the question in hands if this task opened the line.
pub(crate) struct Acquire<'a> {
    // Before the ticket: a question let go half-way is adopted before its line looks deserted.
    ask: Option<Driven<Ask>>,
    stage: Stage<'a>,
    give_up_at: Moment,
    alarm: Option<Alarm>,
}

enum Stage<'a> {
    /// Not polled yet.
    Outside(&'a Line, Option<Wish>),
    InLine(Ticket<'a>),
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(line: &'a Line, wish: Wish, give_up_at: Moment) -> Self {
        Self { ask: None, stage: Stage::Outside(line, Some(wish)), give_up_at, alarm: None }
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Option<Turn>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Stage::InLine(ticket) = &this.stage
            && let Err(refused) = ticket.line.core.check_process()
        {
            // It began to wait before a fork: the place in line is the parent's.
            return Poll::Ready(Err(refused));
        }
        if let Stage::Outside(line, wish) = &mut this.stage
            && let Some(wish) = wish.take()
        {
            match line.join(wish, context.waker()) {
                Joined::Opened(ticket) => {
                    this.ask = Ask::begin(&ticket.line).map(Driven::new);
                    this.stage = Stage::InLine(ticket);
                }
                Joined::Queued(ticket) => {
                    this.stage = Stage::InLine(ticket);
                    return this.poll_limit(context);
                }
                Joined::Again(turn) => return Poll::Ready(Ok(Some(turn))),
                Joined::Busy => return Poll::Ready(Ok(None)),
            }
        }
        if let Some(ask) = &mut this.ask
            && Pin::new(ask).poll(context).is_ready()
        {
            this.ask = None;
        }
        if let Stage::InLine(ticket) = &mut this.stage {
            let answer = match &this.ask {
                // Only the question in our own hands can have been answered.
                Some(_) => ticket.seat.take_answer(),
                None => ticket.seat.poll_answer(context.waker()),
            };
            if let Some(answer) = answer {
                ticket.is_answered = true;
                return Poll::Ready(answer.into_turn());
            }
        }
        this.poll_limit(context)
    }
}

impl Acquire<'_> {
    /// Gives up when the time is over.
    fn poll_limit(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Turn>>> {
        let Stage::InLine(ticket) = &mut self.stage else { return Poll::Pending };
        if self.give_up_at == Moment::NEVER {
            return Poll::Pending;
        }
        let (give_up_at, core) = (self.give_up_at, &ticket.line.core);
        if self.alarm.is_none()
            && let Err(error) = core.alarms.ready()
        {
            // Nobody would tell us that the time is over.
            let error = core.error_at(error, ticket.line.key(), Call::Acquire);
            let answer = ticket.leave().unwrap_or(Answer::Failed(error));
            return Poll::Ready(answer.into_turn());
        }
        let alarm = self.alarm.get_or_insert_with(|| core.alarms.alarm(give_up_at));
        std::task::ready!(alarm.poll(context.waker()));
        let answer =
            ticket.leave().unwrap_or_else(|| Answer::Failed(ticket.line.why_not(&ticket.seat)));
        Poll::Ready(answer.into_turn())
    }
}

impl Answer {
    /// The turn that the answer brings, if any.
    fn into_turn(self) -> Result<Option<Turn>> {
        match self {
            Self::Yours(turn) => Ok(Some(turn)),
            Self::Busy => Ok(None),
            Self::Failed(error) => Err(error),
        }
    }
}
