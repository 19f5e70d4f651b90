//! Numbers as text, and back.

/// A number as text, without a trip to the heap.
pub(crate) struct Digits {
    buffer: [u8; 20],
    start: usize,
}

impl Digits {
    pub(crate) fn of(mut number: u64) -> Self {
        let mut digits = Self { buffer: [0; 20], start: 20 };
        let digit = |number: u64| b'0' + (number % 10) as u8;
        // Two digits per step: the division is the slow part.
        while number >= 10 {
            let two = number % 100;
            number /= 100;
            digits.start -= 2;
            digits.buffer[digits.start..digits.start + 2]
                .copy_from_slice(&[digit(two / 10), digit(two)]);
        }
        if number > 0 || digits.start == 20 {
            digits.start -= 1;
            digits.buffer[digits.start] = digit(number);
        }
        digits
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

/// The number at the start of the bytes, and how many digits it has. Reading stops after 18 digits, so the number
/// cannot overflow.
pub(crate) fn leading_number(bytes: &[u8]) -> (i64, usize) {
    let (mut number, mut n_digits) = (0, 0);
    while let Some(eight) = bytes.get(n_digits..n_digits + 8).and_then(eight_digits)
        && n_digits < 16
    {
        number = number * 100_000_000 + eight;
        n_digits += 8;
    }
    for digit in bytes[n_digits..].iter().map(|c| c.wrapping_sub(b'0')) {
        if digit > 9 || n_digits == 18 {
            break;
        }
        number = number * 10 + i64::from(digit);
        n_digits += 1;
    }
    (number, n_digits)
}

/// The number that eight digits make. All eight are converted in parallel: first neighbours are combined, then
/// pairs, then groups of four.
fn eight_digits(digits: &[u8]) -> Option<i64> {
    let digits = u64::from_le_bytes(digits.try_into().ok()?);
    let above_nine = digits.wrapping_add(0x0606_0606_0606_0606);
    if (digits & above_nine) & 0xf0f0_f0f0_f0f0_f0f0 != 0x3030_3030_3030_3030
        || (digits | above_nine) & 0xf0f0_f0f0_f0f0_f0f0 != 0x3030_3030_3030_3030
    {
        return None;
    }
    let ones = digits & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    i64::try_from(eight).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_what_is_printed() {
        let mut number = 1_u64;
        for _ in 0..64 {
            for near in [number - 1, number, number + 1] {
                assert_eq!(Digits::of(near).as_bytes(), near.to_string().as_bytes());
            }
            number = number.wrapping_mul(7) % (u64::MAX / 10) + 1;
        }
        assert_eq!(Digits::of(u64::MAX).as_bytes(), u64::MAX.to_string().as_bytes());
        assert_eq!(Digits::of(10_000).as_bytes(), b"10000");
    }

    #[test]
    fn eight_digits_are_a_number_and_nothing_else_is() {
        assert_eq!(eight_digits(b"12345678"), Some(12_345_678));
        assert_eq!(eight_digits(b"00000009"), Some(9));
        assert_eq!(eight_digits(b"99999999"), Some(99_999_999));
        for at in 0..8 {
            for byte in (0..=255_u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut digits = *b"90909090";
                digits[at] = byte;
                assert_eq!(eight_digits(&digits), None, "{digits:?}");
            }
        }
    }
}
