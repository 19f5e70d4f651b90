//! Where the parts of a place stand, by bytes. `names.lua` says what each of them is for.

use std::ops::Range;

pub(super) const OWNER: Range<usize> = 1..33;
/// The number of the ask.
pub(super) const ASK: Range<usize> = 33..39;
/// How long the key lasts if the lock is handed over.
#[cfg(test)]
const KEY_LASTS: Range<usize> = 39..43;
pub(super) const CHANNEL: Range<usize> = 43..71;
/// The second of the ask.
pub(super) const SECOND: Range<usize> = 71..81;
pub(super) const INFO_AT: usize = 81;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lua counts from 1, and names the last byte.
    fn part(text: &str, range: Range<usize>) -> String {
        format!("sub({text}, {}, {})", range.start + 1, range.end)
    }

    #[test]
    fn the_scripts_cut_places_as_we_do() {
        let (ask, tell) = (include_str!("ask.lua"), include_str!("tell.lua"));
        for (script, cut) in [
            (include_str!("places.lua"), part("place", OWNER)),
            (include_str!("release_marked.lua"), part("place", OWNER)),
            (include_str!("hand_over.lua"), part("place", KEY_LASTS)),
            (tell, part("place", CHANNEL)),
            (ask, part("ARGV[1]", OWNER)),
            (ask, part("ARGV[1]", SECOND)),
            (ask, format!("sub(ARGV[1], {})", INFO_AT + 1)),
            // A message is a place up to the number of the ask, and the last of the fences.
            (tell, format!("'<c{}I8'", ASK.end)),
        ] {
            assert!(script.contains(&cut), "no {cut} in {script}");
        }
        let parts = [OWNER, ASK, KEY_LASTS, CHANNEL, SECOND];
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(SECOND.end, INFO_AT);
    }
}
