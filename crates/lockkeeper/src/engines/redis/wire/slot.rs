//! Where in a cluster a key lives.

/// A slot of Redis Cluster: 0 to 16383.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u16);

/// How many slots there are.
pub(crate) const N_SLOTS: u16 = 16384;

impl Slot {
    /// The slot of a key. If the key has text in braces, only the text in the first braces counts.
    pub(crate) fn of(key: &[u8]) -> Self {
        let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|byte| *byte == b'}')?;
            (close > 0).then(|| &rest[..close])
        });
        Self(crc16(tag.unwrap_or(key)) % N_SLOTS)
    }
}

/// CRC-16/XMODEM, which Redis Cluster uses.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The CRC of each byte, so that a key needs one look-up per byte.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(Slot::of(b"foo"), Slot(12182));
        assert_eq!(Slot::of(b"{user1000}.following"), Slot::of(b"user1000"));
        assert_eq!(Slot::of(b"foo{}{bar}"), Slot(crc16(b"foo{}{bar}") % N_SLOTS));
        assert_eq!(Slot::of(b"foo{{bar}}zap"), Slot::of(b"{bar"));
    }
}
