//! Owners and durations as they are written into commands.

use std::time::Duration;

use crate::engine::OwnerId;

/// Whole milliseconds, at least one.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Thirty-two hexadecimal digits.
pub(crate) fn hex(owner: OwnerId) -> [u8; 32] {
    let mut digits = [0; 32];
    for (eight, bytes) in digits.chunks_exact_mut(8).zip(owner.0.to_be_bytes().chunks_exact(4)) {
        eight.copy_from_slice(&hex_of_four(bytes).to_be_bytes());
    }
    digits
}

/// Converts four bytes to eight digits, one digit in each byte of the result. Eight digits take as many steps as one.
fn hex_of_four(bytes: &[u8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // Spread the number out, so that every half byte has a byte of its own.
    let pairs = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    let halves = (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Digits above nine are letters.
    let letters = (halves + 6 * ONES) >> 4 & ONES;
    halves + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)
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
