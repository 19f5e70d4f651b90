//! What goes to stdout: whole texts, written once.

use std::io::{ErrorKind, Write};

use crate::exit::{Exit, Failure};

/// Writes everything to stdout. A reader who left early (`| head`) is no failure.
pub(crate) fn print(text: &[u8]) -> Result<Exit, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(Failure::system("write to stdout", error)),
    }
}

/// Rows in aligned columns. The last column is not padded: it may hold anything.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            text += cell;
            if i + 1 < N {
                let width = rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
                text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
            }
        }
        text.push('\n');
    }
    text
}

/// A JSON string.
pub(crate) fn json_text(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            // Also those that JSON would allow: the output may end on a terminal.
            c if c.is_control() => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

/// A JSON string or number, or `null`.
pub(crate) fn json_or_null(value: Option<String>) -> String {
    value.unwrap_or_else(|| "null".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_text_has_no_raw_control_characters() {
        assert_eq!(json_text("a\"\\\n\u{1b}\u{9b}é"), r#""a\"\\\u000a\u001b\u009bé""#);
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "bb", "c"], ["aaa", "b", "cc"]].map(|row| row.map(String::from));
        assert_eq!(columns(&rows), "a    bb  c\naaa  b   cc\n");
    }
}
