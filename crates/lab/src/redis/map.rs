//! Who is who in a cluster, as one of its nodes sees it.

use std::{io, ops::RangeInclusive};

use super::Server;

/// One line of what `CLUSTER NODES` says.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) port: u16,
    pub(super) is_primary: bool,
    slots: Vec<RangeInclusive<u16>>,
}

impl Member {
    pub(super) fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }
}

/// The members that a node knows and thinks alive.
pub(super) fn seen_by(node: &Server) -> io::Result<Vec<Member>> {
    let text = node.command(&["CLUSTER", "NODES"])?.not_an_error()?.text();
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Member> {
    text.lines().filter_map(member).filter(|(_, flags)| is_alive(flags)).map(|(m, _)| m).collect()
}

/// Such as `id 127.0.0.1:7000@17000,name myself,master - 0 0 1 connected 0-5 7 [8->-id]`.
fn member(line: &str) -> Option<(Member, String)> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [_, address, flags, _, _, _, _, _, slots @ ..] = fields.as_slice() else { return None };
    let port = address.split('@').next()?.rsplit(':').next()?.parse().ok()?;
    let is_primary = flags.split(',').any(|flag| flag == "master");
    // Slots that are being moved have brackets; they are named among the others, too.
    let slots = slots.iter().filter_map(|slots| range(slots)).collect();
    Some((Member { port, is_primary, slots }, (*flags).to_owned()))
}

fn range(slots: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

fn is_alive(flags: &str) -> bool {
    !flags.split(',').any(|flag| matches!(flag, "fail" | "fail?" | "handshake" | "noaddr"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_members_are_understood() {
        let members = parse(
            "a 127.0.0.1:7000@17000,host myself,master - 0 0 1 connected 0-5 7 [8->-b]\n\
             b 127.0.0.1:7001@17001 slave a 0 1 1 connected\n\
             c 127.0.0.1:7002@17002 master,fail - 0 1 3 disconnected 9-16383\n",
        );
        assert_eq!(members.len(), 2);
        assert_eq!((members[0].port, members[1].port), (7000, 7001));
        assert!(members[0].is_primary && !members[1].is_primary);
        let slots: Vec<_> = (0..10).filter(|slot| members[0].has(*slot)).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5, 7]);
    }
}
