//! Where one request or reply of Redis or Memcached ends and the next begins.

/// Bytes as they come, given out as whole frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// What came is neither's protocol; nothing is taken note of any more.
    is_foreign: bool,
}

impl Frames {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if !self.is_foreign {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The next frame, if it is there to its end.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        match length(&self.bytes) {
            Length::Known(length) => Some(self.bytes.drain(..length).collect()),
            Length::Unknown => None,
            Length::Foreign => {
                self.is_foreign = true;
                self.bytes.clear();
                None
            }
        }
    }

    /// The beginning of the frame that has not come to its end.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign
    }
}

/// Whether a frame comes unasked. Such frames exist in the third version of the protocol only.
pub(super) fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

/// The texts directly in a request, or in a list of texts and numbers.
pub(super) fn words(frame: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    let Some((_, mut rest)) = split_line(frame) else { return words };
    while let Length::Known(length) = length(rest) {
        let (element, after) = rest.split_at(length);
        match split_line(element) {
            Some((line, text)) if line.starts_with(b"$") => {
                words.push(text.strip_suffix(b"\r\n").unwrap_or(text));
            }
            _ => words.push(element),
        }
        rest = after;
    }
    words
}

enum Length {
    Known(usize),
    /// More must come.
    Unknown,
    /// Not the protocol.
    Foreign,
}

fn length(bytes: &[u8]) -> Length {
    let Some(kind) = bytes.first() else { return Length::Unknown };
    if kind.is_ascii_alphabetic() {
        return length_in_lines(bytes);
    }
    if !b"+-:,#_($=!*~>%|".contains(kind) {
        return Length::Foreign;
    }
    let Some((line, rest)) = split_line(bytes) else { return Length::Unknown };
    let head = bytes.len() - rest.len();
    if b"+-:,#_(".contains(kind) {
        return Length::Known(head);
    }
    let number = std::str::from_utf8(&line[1..]).ok().and_then(|text| text.parse::<i64>().ok());
    let Some(number) = number else { return Length::Foreign };
    // Less than nothing is how the second version says that there is no value.
    let Ok(number) = usize::try_from(number) else { return Length::Known(head) };
    let n_elements = match kind {
        b'$' | b'=' | b'!' if rest.len() < number + 2 => return Length::Unknown,
        b'$' | b'=' | b'!' => return Length::Known(head + number + 2),
        b'%' => 2 * number,
        // Attributes come before the value that they belong to.
        b'|' => 2 * number + 1,
        _ => number,
    };
    let mut end = head;
    for _ in 0..n_elements {
        match length(&bytes[end..]) {
            Length::Known(length) => end += length,
            other => return other,
        }
    }
    Length::Known(end)
}

/// Memcached's protocol has lines, some of which say how many bytes of a value come behind them.
fn length_in_lines(bytes: &[u8]) -> Length {
    let Some((line, rest)) = split_line(bytes) else { return Length::Unknown };
    let head = bytes.len() - rest.len();
    let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let n_bytes = match words[..] {
        [b"ms", _, n_bytes, ..] | [b"VA", n_bytes, ..] => std::str::from_utf8(n_bytes).ok(),
        _ => return Length::Known(head),
    };
    match n_bytes.and_then(|n_bytes| n_bytes.parse::<usize>().ok()) {
        None => Length::Foreign,
        Some(n_bytes) if rest.len() < n_bytes + 2 => Length::Unknown,
        Some(n_bytes) => Length::Known(head + n_bytes + 2),
    }
}

/// The first line, without its end, and what comes after it.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [&[u8]; 13] = [
        b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n",
        b"+OK\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*2\r\n:1\r\n_\r\n",
        b"%2\r\n+a\r\n:1\r\n+b\r\n*0\r\n",
        b"|1\r\n+a\r\n:1\r\n$2\r\nab\r\n",
        b"$0\r\n\r\n",
        b"ms key 4 T5 ME c\r\n\r\n\r\n\r\n",
        b"md key C7\r\n",
        b"VA 4 c7\r\nabcd\r\n",
        b"HD c7\r\n",
        b"CLIENT_ERROR bad command line format\r\n",
    ];

    #[test]
    fn frames_come_out_whole_however_they_came_in() {
        let all = FRAMES.concat();
        for size in 1..=all.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for chunk in all.chunks(size) {
                frames.add(chunk);
                seen.extend(std::iter::from_fn(|| frames.next()));
            }
            assert_eq!(seen, FRAMES);
            assert!(frames.rest().is_empty() && !frames.is_foreign());
        }
    }

    #[test]
    fn another_protocol_is_left_alone() {
        let mut frames = Frames::default();
        frames.add(&[0x16, 3, 1]);
        assert_eq!(frames.next(), None);
        assert!(frames.is_foreign());
    }

    #[test]
    fn words_are_found_in_requests_and_messages() {
        assert_eq!(words(FRAMES[0]), [b"GET".as_slice(), b"\r\n\r\n"]);
        assert_eq!(words(FRAMES[4])[..2], [b"message".as_slice(), b"c"]);
    }
}
