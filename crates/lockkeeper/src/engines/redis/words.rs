//! What is written into many commands.

use std::time::Duration;

use crate::engine::OwnerId;

/// Whole milliseconds, at least one.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Thirty-two hexadecimal digits.
pub(super) fn hex(owner: OwnerId) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(owner.0.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_looks_as_it_is_printed() {
        let owner = OwnerId(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        assert_eq!(hex(owner), owner.to_string().as_bytes());
        assert_eq!((millis(Duration::ZERO), millis(Duration::from_secs(2))), (1, 2000));
    }
}
