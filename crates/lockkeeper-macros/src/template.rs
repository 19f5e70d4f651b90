//! The key: text with placeholders over the function's arguments.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Expr, LitStr, Result};

const MAX_BYTES: usize = 512;

/// A key as it is written, such as `order:{order.id}`.
pub(crate) struct Template {
    /// The same text for `format!`: every placeholder a `{}` with its format.
    format: String,
    /// The text as it is, while there is no placeholder.
    text: String,
    placeholders: Vec<Expr>,
    span: Span,
}

impl Template {
    /// Reads a literal and refuses what could never be a key.
    pub(crate) fn read(literal: &LitStr) -> Result<Self> {
        let (key, span) = (literal.value(), literal.span());
        let mut template =
            Self { format: String::new(), text: String::new(), placeholders: Vec::new(), span };
        let mut rest = key.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            template.push_text(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                template.push_text(brace);
                rest = behind;
            } else if brace == "{" {
                let end = closing_brace(rest).ok_or_else(|| {
                    template
                        .fault("a `{` in the key is not closed; for the brace itself write `{{`")
                })?;
                template.push_placeholder(&rest[..end])?;
                rest = &rest[end + 1..];
            } else {
                return Err(template
                    .fault("a `}` in the key closes nothing; for the brace itself write `}}`"));
            }
        }
        template.push_text(rest);
        template.check_length()?;
        Ok(template)
    }

    /// The values in the placeholders.
    pub(crate) fn placeholders(&self) -> &[Expr] {
        &self.placeholders
    }

    /// An error that points at the key.
    pub(crate) fn fault(&self, message: impl std::fmt::Display) -> Error {
        Error::new(self.span, message)
    }

    /// An expression of type `&str`; it borrows the arguments and moves none.
    pub(crate) fn tokens(&self) -> TokenStream {
        let Self { format, text, placeholders, .. } = self;
        if placeholders.is_empty() {
            return quote!(#text);
        }
        quote!(&::std::format!(#format, #(#placeholders),*))
    }

    fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
        self.format.push_str(&text.replace('{', "{{").replace('}', "}}"));
    }

    fn push_placeholder(&mut self, inside: &str) -> Result<()> {
        let (value, format) = split_format(inside);
        let fault = |why: &str| self.fault(format!("the placeholder `{{{inside}}}` {why}"));
        if value.trim().is_empty() {
            return Err(fault("is empty; name an argument, such as `{order.id}`"));
        }
        if !brackets_match(value) {
            return Err(fault("has a bracket or a quote without its partner"));
        }
        let value: Expr = LitStr::new(value, self.span).parse().map_err(|_| {
            fault(
                "cannot be read; it holds an expression over the arguments, such as `{order.id}`, \
                 and may end in a format with fixed width, such as `{n:04}`",
            )
        })?;
        if let Expr::Lit(_) = value {
            return Err(fault("is always the same; name an argument, such as `{order.id}`"));
        }
        self.placeholders.push(value);
        self.format.push_str(&format!("{{:{format}}}"));
        Ok(())
    }

    fn check_length(&self) -> Result<()> {
        let n_bytes = self.text.len();
        if n_bytes > MAX_BYTES {
            let message =
                format!("the fixed part of the key has {n_bytes} bytes, at most {MAX_BYTES} fit");
            return Err(self.fault(message));
        }
        if n_bytes == 0 && self.placeholders.is_empty() {
            return Err(self.fault("the key is empty; a key is a text of 1 to 512 bytes"));
        }
        Ok(())
    }
}

/// Where the placeholder ends whose first brace stands just before this text.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut scan = Scan(text);
    while let Some(found) = scan.next_outside_quotes() {
        match found {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(text.len() - scan.0.len() - 1),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The compiler reports unequal brackets somewhere in text of its own; here they can be named.
fn brackets_match(text: &str) -> bool {
    let mut open = Vec::new();
    let mut scan = Scan(text);
    while let Some(found) = scan.next_outside_quotes() {
        match found {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(found) => return false,
            '"' => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// Rust text, read past its strings and characters.
struct Scan<'a>(&'a str);

impl Scan<'_> {
    /// The next character; a quote only if its partner is missing.
    fn next_outside_quotes(&mut self) -> Option<char> {
        loop {
            let first = self.0.chars().next()?;
            let Some(n_bytes) = quoted(self.0) else {
                self.0 = &self.0[first.len_utf8()..];
                return Some(first);
            };
            self.0 = &self.0[n_bytes..];
        }
    }
}

/// The length of the string or character that starts here, if one does.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (n_chars, (at, c)) in text.char_indices().skip(1).enumerate() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            // A lifetime has one quote, a character closes after one that is not escaped.
            _ if quote == '\'' && n_chars > 0 && !text[1..].starts_with('\\') => return None,
            _ => {}
        }
    }
    None
}

/// Splits `n:04` into the value and its format; the colons of paths stay with the value.
fn split_format(inside: &str) -> (&str, &str) {
    match inside.rsplit_once(':') {
        Some((value, format)) if !value.ends_with(':') && is_format(format) => (value, format),
        _ => (inside, ""),
    }
}

/// Whether this is `[[fill]align][sign]['#']['0'][width]['.' precision][type]` in figures.
fn is_format(format: &str) -> bool {
    let is_align = |c: Option<char>| c.is_some_and(|c| matches!(c, '<' | '^' | '>'));
    let mut chars = format.chars();
    let (first, second) = (chars.next(), chars.next());
    let aligned = match () {
        () if is_align(second) => chars.as_str(),
        () if is_align(first) => &format[1..],
        () => format,
    };
    let signed = aligned.strip_prefix(['+', '-']).unwrap_or(aligned);
    let digits = |text: &'_ str| text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let width = signed.strip_prefix('#').unwrap_or(signed);
    let behind_width = &width[width.len() - digits(width)..];
    let kind = match behind_width.strip_prefix('.') {
        Some(precision) if digits(precision) == precision.len() => return false,
        Some(precision) => &precision[precision.len() - digits(precision)..],
        None => behind_width,
    };
    matches!(kind, "" | "?" | "x?" | "X?" | "x" | "X" | "o" | "b" | "e" | "E")
}

#[cfg(test)]
mod tests;
