//! What the command and its warden tell each other, over a pair of sockets.
//!
//! One packet is one message: a letter and a number. An order to start may bring a descriptor
//! along. When one side dies, the other one sees the hang-up: that is what the pair is for.

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::{
    cmsg_space,
    errno::Errno,
    sys::{
        signal::Signal,
        socket::{
            AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
            socketpair,
        },
    },
};

use super::process;

type Packet = [u8; 9];

/// From the command to the warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The lock is held: run the child.
    Start { fence: u64 },
    /// Send this signal to the child.
    Pass(Signal),
    /// The same, if the child was not there yet when the whole process group got it.
    MakeUpFor(Signal),
    /// End the child and all its descendants: SIGTERM, the grace, SIGKILL.
    Stop { grace: Duration },
}

/// From the warden to the command: the child could not be started. All else is in the status the
/// warden exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotStarted {
    pub(super) errno: i32,
}

/// What a look at the channel found.
#[derive(Debug)]
pub(super) enum Received<M> {
    Message(M, Option<OwnedFd>),
    Nothing,
    HangUp,
}

/// Something that fits in a packet.
pub(super) trait Message: Sized {
    fn pack(&self) -> Packet;
    fn unpack(letter: u8, number: u64) -> Option<Self>;
}

impl Message for Order {
    fn pack(&self) -> Packet {
        match *self {
            Self::Start { fence } => packet(b'+', fence),
            Self::Pass(signal) => packet(b'!', signal as u64),
            Self::MakeUpFor(signal) => packet(b'?', signal as u64),
            Self::Stop { grace } => {
                packet(b'.', u64::try_from(grace.as_millis()).unwrap_or(u64::MAX))
            }
        }
    }

    fn unpack(letter: u8, number: u64) -> Option<Self> {
        Some(match letter {
            b'+' => Self::Start { fence: number },
            b'!' => Self::Pass(signal_of(number)?),
            b'?' => Self::MakeUpFor(signal_of(number)?),
            b'.' => Self::Stop { grace: Duration::from_millis(number) },
            _ => return None,
        })
    }
}

impl Message for NotStarted {
    fn pack(&self) -> Packet {
        packet(b'-', u64::from(self.errno.unsigned_abs()))
    }

    fn unpack(letter: u8, number: u64) -> Option<Self> {
        let errno = i32::try_from(number).ok()?;
        (letter == b'-').then_some(Self { errno })
    }
}

fn signal_of(number: u64) -> Option<Signal> {
    Signal::try_from(i32::try_from(number).ok()?).ok()
}

fn packet(letter: u8, number: u64) -> Packet {
    let mut packet = [letter; 9];
    packet[1..].copy_from_slice(&number.to_le_bytes());
    packet
}

/// Two ends that keep packets apart and do not survive an exec.
pub(super) fn channel() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// Sends a message, with a descriptor if there is one.
pub(super) fn send<M: Message>(
    to: &OwnedFd,
    message: &M,
    lock: Option<&OwnedFd>,
) -> nix::Result<()> {
    let packet = message.pack();
    let rights = lock.map(AsRawFd::as_raw_fd);
    let control: &[_] = match &rights {
        Some(fd) => &[ControlMessage::ScmRights(std::slice::from_ref(fd))],
        None => &[],
    };
    let slices = [IoSlice::new(&packet)];
    loop {
        match sendmsg::<()>(to.as_raw_fd(), &slices, control, MsgFlags::MSG_NOSIGNAL, None) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes the next message without waiting.
pub(super) fn receive<M: Message>(from: &OwnedFd) -> nix::Result<Received<M>> {
    let mut packet = [0; 9];
    let mut control = cmsg_space!([std::os::fd::RawFd; 1]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let (n_bytes, lock) = loop {
        let mut slices = [IoSliceMut::new(&mut packet)];
        match recvmsg::<()>(from.as_raw_fd(), &mut slices, Some(&mut control), flags) {
            Ok(received) => break (received.bytes, process::descriptor_in(&received)),
            // A reset says that the other side closed without reading all; its last words follow.
            Err(Errno::EINTR | Errno::ECONNRESET) => {}
            Err(Errno::EAGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        }
    };
    if n_bytes == 0 {
        return Ok(Received::HangUp);
    }
    let [letter, number @ ..] = packet;
    let message = M::unpack(letter, u64::from_le_bytes(number)).ok_or(Errno::EBADMSG)?;
    Ok(Received::Message(message, lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_descriptors_arrive_as_sent() {
        let (ours, theirs) = channel().unwrap();
        let (passed, _) = channel().unwrap();
        let grace = Duration::from_secs(7);
        for order in [
            Order::Start { fence: u64::MAX },
            Order::Pass(Signal::SIGHUP),
            Order::MakeUpFor(Signal::SIGINT),
            Order::Stop { grace },
        ] {
            send(&ours, &order, Some(&passed)).unwrap();
            let Received::Message(received, Some(_)) = receive::<Order>(&theirs).unwrap() else {
                panic!("not a message with a descriptor");
            };
            assert_eq!(received, order);
        }
        assert!(matches!(receive::<Order>(&theirs), Ok(Received::Nothing)));
    }

    #[test]
    fn last_words_are_heard_though_the_other_side_left_mail_unread() {
        let (ours, theirs) = channel().unwrap();
        send(&ours, &Order::Pass(Signal::SIGTERM), None).unwrap();
        send(&theirs, &NotStarted { errno: 2 }, None).unwrap();
        drop(theirs);
        let received = receive::<NotStarted>(&ours);
        assert!(matches!(received, Ok(Received::Message(NotStarted { errno: 2 }, None))));
        assert!(matches!(receive::<NotStarted>(&ours), Ok(Received::HangUp)));
    }
}
