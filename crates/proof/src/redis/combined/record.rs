//! What each worker writes down while it works, line by line, so that a kill leaves all that came
//! before it.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// One line. Moments are nanoseconds of the machine's clock that nobody sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Which call for a lock it is about, among those of this worker.
    pub(crate) call: u64,
    pub(crate) event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The call begins; it should be over after this long.
    Ask { key: u32, at: u64, limit: u64 },
    /// It ended without a guard; in a word, and in the words of the error.
    End { at: u64, how: String },
    /// It ended with a guard, and a first look was taken at `look`: so much was left then.
    Have { fence: u64, at: u64, look: u64, left: u64 },
    /// Another look found the lock held.
    Held { look: u64, left: u64 },
    /// A look found it not held any more; the moment is after the look.
    Over { at: u64 },
    /// The guard is about to be given back.
    Leave { at: u64 },
    /// Giving it back has come to an end; in a word, and in the words of the error.
    Left { at: u64, how: String },
    /// The resource was read as this step.
    Read { step: u64 },
    /// It was written as this step, and the lock was held when the answer was there.
    Wrote { step: u64 },
    /// The resource refused the fence, and the lock was held when the answer was there.
    Refused,
}

impl Line {
    fn text(&self) -> String {
        let call = self.call;
        match &self.event {
            Event::Ask { key, at, limit } => format!("ask {call} {key} {at} {limit}\n"),
            Event::End { at, how } => format!("end {call} {at} {how}\n"),
            Event::Have { fence, at, look, left } => {
                format!("have {call} {fence} {at} {look} {left}\n")
            }
            Event::Held { look, left } => format!("held {call} {look} {left}\n"),
            Event::Over { at } => format!("over {call} {at}\n"),
            Event::Leave { at } => format!("leave {call} {at}\n"),
            Event::Left { at, how } => format!("left {call} {at} {how}\n"),
            Event::Read { step } => format!("read {call} {step}\n"),
            Event::Wrote { step } => format!("wrote {call} {step}\n"),
            Event::Refused => format!("refused {call}\n"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let (name, call, rest) = (words.next()?, words.next()?.parse().ok()?, words);
        let rest: Vec<&str> = rest.collect();
        let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
        let pair = || rest.get(1)?.split_once(' ').map(|(one, two)| (one.parse(), two.parse()));
        let event = match name {
            "ask" => {
                let (at, limit) = pair()?;
                Event::Ask { key: number(0)?.try_into().ok()?, at: at.ok()?, limit: limit.ok()? }
            }
            "end" => Event::End { at: number(0)?, how: (*rest.get(1)?).to_owned() },
            "have" => {
                let numbers: Vec<u64> = rest.get(1)?.split(' ').flat_map(str::parse).collect();
                let [at, look, left] = numbers[..] else { return None };
                Event::Have { fence: number(0)?, at, look, left }
            }
            "held" => Event::Held { look: number(0)?, left: number(1)? },
            "over" => Event::Over { at: number(0)? },
            "leave" => Event::Leave { at: number(0)? },
            "left" => Event::Left { at: number(0)?, how: (*rest.get(1)?).to_owned() },
            "read" => Event::Read { step: number(0)? },
            "wrote" => Event::Wrote { step: number(0)? },
            "refused" => Event::Refused,
            _ => return None,
        };
        Some(Self { call, event })
    }
}

/// A worker's own file, open for writing at its end.
#[derive(Debug)]
pub(crate) struct Record(File);

impl Record {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        File::options().append(true).create(true).open(path).map(Self)
    }

    pub(crate) fn write(&mut self, call: u64, event: Event) -> io::Result<()> {
        self.0.write_all(Line { call, event }.text().as_bytes())
    }
}

/// All that a worker has written; its last line may be cut off by a kill.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let broken = |line: &str| io::Error::other(format!("a line cannot be read: {line:?}"));
    whole.lines().map(|line| Line::parse(line).ok_or_else(|| broken(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_a_cut_line_is_left_out() {
        let folder = lab::Folder::new().unwrap();
        let path = folder.join("record");
        assert!(read(&path).unwrap().is_empty());
        let how = || "Unreachable no answer, in time".to_owned();
        let events = [
            Event::Ask { key: 2, at: 3, limit: u64::MAX },
            Event::End { at: 4, how: how() },
            Event::Have { fence: u64::MAX, at: 5, look: 6, left: 7 },
            Event::Held { look: 8, left: 9 },
            Event::Over { at: 10 },
            Event::Leave { at: 11 },
            Event::Left { at: 12, how: how() },
            Event::Read { step: 13 },
            Event::Wrote { step: 14 },
            Event::Refused,
        ];
        let mut record = Record::open(&path).unwrap();
        for event in &events {
            record.write(1, event.clone()).unwrap();
        }
        record.0.write_all(b"held 1 8").unwrap();
        let expected: Vec<_> = events.map(|event| Line { call: 1, event }).into();
        assert_eq!(read(&path).unwrap(), expected);
        record.0.write_all(b"\n").unwrap();
        read(&path).unwrap_err();
    }
}
