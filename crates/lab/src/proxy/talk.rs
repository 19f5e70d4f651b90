//! Which reply belongs to which request of one connection.

use std::collections::VecDeque;

use super::{
    Then,
    frames::{Frames, is_push, words},
};

/// A reply that is to be lost.
#[derive(Debug)]
pub(super) struct Loss {
    /// What the request contains, in capitals or not.
    pub(super) needle: Vec<u8>,
    pub(super) then: Then,
}

/// The requests and replies of one connection.
#[derive(Debug, Default)]
pub(super) struct Talk {
    requests: Frames,
    replies: Frames,
    /// How much of the reply that has not come to its end has been passed on.
    n_passed: usize,
    /// What the server has still to answer.
    open: VecDeque<Open>,
}

/// A request without its reply.
#[derive(Debug)]
struct Open {
    /// How many frames confirm it, if it is about subscriptions: one for each of them.
    n_confirmations: Option<usize>,
    lost: Option<Then>,
}

impl Talk {
    /// Takes note of what goes to the server, before it goes there, and of what must be lost of the
    /// answers to it.
    pub(super) fn up(&mut self, bytes: &[u8], losses: &mut Vec<Loss>) {
        self.requests.add(bytes);
        while let Some(request) = self.requests.next() {
            let loss = losses.iter().position(|loss| contains(&request, &loss.needle));
            let lost = loss.map(|index| losses.remove(index).then);
            self.open.push_back(Open { n_confirmations: n_confirmations(&request), lost });
        }
    }

    /// What to pass on of what comes from the server, and what to do then if a reply was lost.
    pub(super) fn down(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<Then>) {
        self.replies.add(bytes);
        let mut passed = Vec::new();
        while let Some(reply) = self.replies.next() {
            if let Some(then) = self.answered(&reply) {
                return (passed, Some(then));
            }
            passed.extend_from_slice(&reply[self.n_passed..]);
            self.n_passed = 0;
        }
        if self.replies.is_foreign() {
            return (bytes.to_vec(), None);
        }
        // Of a reply that may have to be lost, nothing is passed on before all of it is here.
        if self.open.front().is_none_or(|open| open.lost.is_none()) {
            passed.extend_from_slice(&self.replies.rest()[self.n_passed..]);
            self.n_passed = self.replies.rest().len();
        }
        (passed, None)
    }

    /// Finds the request that the frame answers, and says whether the answer is to be lost.
    fn answered(&mut self, reply: &[u8]) -> Option<Then> {
        let open = self.open.front_mut()?;
        let is_confirmed = open.n_confirmations.is_some() && is_confirmation(reply);
        if is_push(reply) && !is_confirmed {
            return None;
        }
        if let Some(left) = open.n_confirmations.as_mut().filter(|_| is_confirmed) {
            *left = left.saturating_sub(1);
            if *left > 0 && open.lost.is_none() {
                return None;
            }
        }
        // A subscription that is refused has one reply, as any request.
        self.open.pop_front()?.lost
    }
}

/// Whether the needle is in it, in capitals or not.
pub(super) fn contains(request: &[u8], needle: &[u8]) -> bool {
    let is_here = |part: &[u8]| part.eq_ignore_ascii_case(needle);
    needle.is_empty() || request.windows(needle.len()).any(is_here)
}

fn n_confirmations(request: &[u8]) -> Option<usize> {
    let words = words(request);
    words.first().filter(|command| is_subscribing(command)).map(|_| (words.len() - 1).max(1))
}

fn is_confirmation(reply: &[u8]) -> bool {
    words(reply).first().is_some_and(|kind| is_subscribing(kind))
}

fn is_subscribing(word: &[u8]) -> bool {
    const WORDS: [&str; 6] =
        ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"];
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    const DEL: &[u8] = b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
    const SUBSCRIBE: &[u8] = b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n$1\r\nd\r\n";
    const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
    const CONFIRMED: &[u8] = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";

    fn talk(requests: &[&[u8]], needle: &[u8]) -> Talk {
        let mut talk = Talk::default();
        let mut losses = vec![Loss { needle: needle.to_vec(), then: Then::Cut }];
        talk.up(&requests.concat(), &mut losses);
        talk
    }

    #[test]
    fn the_reply_to_the_right_request_is_lost() {
        let mut talk = talk(&[GET, DEL, GET], b"del");
        let before = [b"$1\r\nx\r\n", MESSAGE].concat();
        let all = [&before, b":1\r\n$-1\r\n".as_slice()].concat();
        assert_eq!(talk.down(&all), (before, Some(Then::Cut)));
    }

    #[test]
    fn subscriptions_are_confirmed_one_by_one_or_refused() {
        let mut confirmed = talk(&[SUBSCRIBE, DEL], b"del");
        let before = [CONFIRMED, MESSAGE, CONFIRMED].concat();
        let all = [&before, b":1\r\n".as_slice()].concat();
        assert_eq!(confirmed.down(&all), (before, Some(Then::Cut)));

        let mut refused = talk(&[SUBSCRIBE, DEL], b"del");
        let before = b"-NOPERM no\r\n".as_slice();
        let all = [before, b":1\r\n"].concat();
        assert_eq!(refused.down(&all), (before.to_vec(), Some(Then::Cut)));
    }

    #[test]
    fn nothing_of_a_lost_reply_comes_through_and_all_of_the_others_at_once() {
        let mut talk = talk(&[GET, DEL], b"del");
        assert_eq!(talk.down(b"$10\r\n01"), (b"$10\r\n01".to_vec(), None));
        assert_eq!(talk.down(b"23456789\r\n:"), (b"23456789\r\n".to_vec(), None));
        assert_eq!(talk.down(b"1\r\n"), (vec![], Some(Then::Cut)));
    }
}
