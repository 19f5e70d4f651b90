//! What becomes of a grant that cannot be used as it is.

use std::{sync::Arc, time::Duration};

use super::{Next, ask, give_back::give_back_soon, steward::Errand};
use crate::{
    engine::event::Loss,
    engine::{Grant, Patience, Standing, event::Event},
    line::{
        Line, Offer, Unwanted, Why,
        seat::{Answer, Seat},
    },
    tools::caught::calling,
};

/// A grant came that cannot be used as it is: makes it fit for the one who is first in line now, or gives it
/// back and says why where somebody wants to know. The claim was made for this seat, if for any.
pub(super) async fn decline(line: &Line, seat: Option<&Arc<Seat>>, mut unwanted: Unwanted) -> Next {
    let tries = seat.filter(|seat| seat.wish.patience == Patience::Tries);
    loop {
        let Unwanted { offer, why } = unwanted;
        match (why, tries) {
            (Why::NobodyWaits, _) => {}
            (Why::OtherTtl(ttl), _) => {
                let Some(offer) = with_ttl(line, offer, ttl).await else { return Next::Ask };
                match line.granted(offer) {
                    Ok(()) => return Next::Nothing,
                    Err(again) => unwanted = again,
                }
                continue;
            }
            (Why::TooLate(_), Some(tries)) => {
                line.answer_first(tries, Answer::Failed(line.too_late(offer.ttl)));
            }
            (Why::TooLate(took), None) => line.note_late(took),
            (Why::Unwatched(error), Some(tries)) => line.answer_first(tries, Answer::Failed(error)),
            (Why::Unwatched(error), None) => drop(line.fail(|_| true, |_| error.echo())),
        }
        take_back(line, offer).await;
        return Next::Ask;
    }
}

/// Passes the lock on to one who wants this ttl.
pub(crate) fn pass_on(line: Line, offer: Offer, ttl: Duration) -> Errand {
    Box::pin(async move {
        let unwanted = Unwanted { offer, why: Why::OtherTtl(ttl) };
        if let Next::Ask = decline(&line, None, unwanted).await {
            ask(line).await;
        }
    })
}

/// The same grant with a lease that was asked for with another ttl, if that can be had.
async fn with_ttl(line: &Line, mut offer: Offer, ttl: Duration) -> Option<Offer> {
    if let Ok(true) = calling(|| offer.claim.set_ttl(ttl)) {
        let sent_at = line.core.clock.now();
        let standing = line.limited(sent_at, || offer.claim.renew(sent_at)).await;
        match standing {
            Ok(Standing::Held(lease)) => {
                let grant = Grant { lease, ..offer.grant };
                return Some(Offer { grant, sent_at, ttl, ..offer });
            }
            // The guard that passes the lock on has ended its turn: only observers are left to be told.
            Ok(Standing::Lost(why)) if offer.pass_on_until.is_some() => {
                let loss = Loss::TakenAway(why);
                line.core.observers.tell(&Event::Lost { key: line.key(), loss: &loss });
            }
            Ok(Standing::Lost(_)) | Err(_) => {}
        }
    }
    // Asking anew shows what is the matter, if anything is. Either ttl may be that of the lease.
    offer.ttl = offer.ttl.max(ttl);
    take_back(line, offer).await;
    None
}

/// Gives back what nobody took.
async fn take_back(line: &Line, offer: Offer) {
    if offer.pass_on_until.is_some() {
        line.core.observers.tell(&Event::Released { key: line.key() });
    }
    give_back_soon(line, offer.claim, offer.ttl).await;
}
