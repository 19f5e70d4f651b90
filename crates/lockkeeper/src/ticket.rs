//! One task's place in one line, and the wait for its answer.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::{
    alarm::Alarm,
    clock::Moment,
    error::{Error, ErrorKind, Result},
    guard::Guard,
    line::Line,
    roll::Place,
    steward::Driven,
    turn::{Answer, Turn},
};

/// A place in line. Dropping it leaves the line; a turn that was won but never seen passes on.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    // Owned only in the rare case that the line was closed and had to be opened anew.
    pub(crate) line: Cow<'a, Line>,
    turn: Arc<Turn>,
    place: Place,
    answered: bool,
}

impl<'a> Ticket<'a> {
    pub(crate) fn new(line: Cow<'a, Line>, turn: Arc<Turn>, place: Place) -> Self {
        Self { line, turn, place, answered: false }
    }

    /// Leaves the line; an answer that came at the same instant counts.
    fn leave(&mut self) -> Option<Answer> {
        if std::mem::replace(&mut self.answered, true) {
            return None;
        }
        self.line.leave(self.place);
        self.turn.take_answer()
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.line.house.is_this_process() {
            drop(self.leave());
        }
    }
}

/// The wait for the answer, with an errand of its own in hands if this task opened the line.
pub(crate) struct Wait<'a> {
    // Before the ticket: an errand let go half-way is adopted before its line looks deserted.
    errand: Option<Driven<()>>,
    ticket: Ticket<'a>,
    give_up_at: Moment,
    alarm: Option<Alarm>,
}

impl<'a> Wait<'a> {
    pub(crate) fn new(ticket: Ticket<'a>, errand: Option<Driven<()>>, give_up_at: Moment) -> Self {
        Self { errand, ticket, give_up_at, alarm: None }
    }
}

impl Future for Wait<'_> {
    type Output = Result<Option<Guard>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(errand) = &mut this.errand
            && Pin::new(errand).poll(context).is_ready()
        {
            this.errand = None;
        }
        let ticket = &mut this.ticket;
        if let Poll::Ready(answer) = ticket.turn.poll_answer(context.waker()) {
            ticket.answered = true;
            return Poll::Ready(answer.into_guard(&ticket.turn));
        }
        if this.give_up_at == Moment::NEVER {
            return Poll::Pending;
        }
        let give_up_at = this.give_up_at;
        let alarms = &ticket.line.house.alarms;
        let alarm = this.alarm.get_or_insert_with(|| alarms.alarm(give_up_at));
        std::task::ready!(alarm.poll(context.waker()));
        let trouble = ticket.line.trouble();
        let why = trouble.unwrap_or_else(|| Error::new(ErrorKind::TimedOut, "it was busy"));
        let answer = ticket.leave().unwrap_or(Answer::Failed(why));
        Poll::Ready(answer.into_guard(&ticket.turn))
    }
}
