//! What stands in the brackets of `#[locked(…)]`.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use syn::{
    Error, Expr, ExprLit, Lit, LitStr, Result, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    token,
};

use crate::{duration, template::Template};

const NAMES: &str = "`key`, `locks`, `busy`, `ttl`, `maximum_hold`, `label`, `barging`";

const LABEL_MAX_BYTES: usize = 256;

const CHOICES: &str = "`wait(\"5s\")` waits that long, then fails; `forever` waits; \
     `fail` fails at once; `skip` answers `Ok(None)` at once";

/// All options, complete and checked as far as they can be without the function.
pub(crate) struct Options {
    pub(crate) key: Template,
    pub(crate) locks: Expr,
    pub(crate) busy: Busy,
    pub(crate) ttl: Option<Duration>,
    pub(crate) maximum_hold: Option<Duration>,
    pub(crate) label: Option<LitStr>,
    pub(crate) barging: bool,
}

/// What to do when somebody else holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    Wait(Duration),
    Forever,
    Fail,
    Skip,
}

/// What was given so far, in any order.
#[derive(Default)]
struct Given {
    names: Vec<Ident>,
    key: Option<Template>,
    locks: Option<Expr>,
    busy: Option<Busy>,
    ttl: Option<Duration>,
    maximum_hold: Option<Duration>,
    label: Option<LitStr>,
    barging: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut given = Given::default();
        let mut faults = Faults::default();
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            if let Err(fault) = given.take(&name, input) {
                faults.add(fault);
                skip_value(input)?;
            }
            given.names.push(name);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        given.complete(faults)
    }
}

impl Given {
    fn take(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        if self.names.contains(name) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice; keep one")));
        }
        match name.to_string().as_str() {
            "key" => self.key = Some(Template::read(&text(name, input)?)?),
            "locks" => self.locks = Some(value(name, input)?),
            "busy" => self.busy = Some(value(name, input)?),
            "ttl" => self.ttl = Some(duration::read_ttl(&text(name, input)?)?),
            "maximum_hold" => self.maximum_hold = Some(duration::read(&text(name, input)?)?),
            "label" => self.label = Some(read_label(text(name, input)?)?),
            "barging" if input.peek(Token![=]) => {
                return Err(Error::new(name.span(), "`barging` stands alone, without a value"));
            }
            "barging" => self.barging = true,
            _ => {
                let message = format!("there is no option `{name}`; the options are {NAMES}");
                return Err(Error::new(name.span(), message));
            }
        }
        Ok(())
    }

    /// An option that is there but wrong is not missing as well.
    fn complete(self, mut faults: Faults) -> Result<Options> {
        let absent = |name: &str| !self.names.iter().any(|given| given == name);
        if absent("key") {
            faults.missing("the key is missing; give it, such as `key = \"order:{order.id}\"`");
        }
        if absent("locks") {
            faults.missing("say where the locks are, such as `locks = self.locks`");
        }
        if absent("busy") {
            faults
                .missing(&format!("say what happens when the lock is busy: `busy = …`; {CHOICES}"));
        }
        faults.none()?;
        let (Some(key), Some(locks), Some(busy)) = (self.key, self.locks, self.busy) else {
            return Err(Error::new(Span::call_site(), "`key`, `locks` and `busy` are needed"));
        };
        let Self { ttl, maximum_hold, label, barging, .. } = self;
        Ok(Options { key, locks, busy, ttl, maximum_hold, label, barging })
    }
}

impl Parse for Busy {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let unknown =
            |span| Error::new(span, format!("choose what happens when it is busy: {CHOICES}"));
        let choice = input.call(Ident::parse_any).map_err(|fault| unknown(fault.span()))?;
        match choice.to_string().as_str() {
            "wait" if input.peek(token::Paren) => {
                let limit;
                syn::parenthesized!(limit in input);
                Ok(Self::Wait(duration::read(&limit.parse::<LitStr>().map_err(|fault| {
                    Error::new(fault.span(), "say how long in quotes: `wait(\"5s\")`")
                })?)?))
            }
            "wait" => Err(Error::new(choice.span(), "say how long: `wait(\"5s\")`")),
            "forever" => Ok(Self::Forever),
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            _ => Err(unknown(choice.span())),
        }
    }
}

/// Every fault of one attribute, so that a user sees them all at once.
#[derive(Default)]
struct Faults(Option<Error>);

impl Faults {
    fn add(&mut self, fault: Error) {
        match &mut self.0 {
            Some(faults) => faults.combine(fault),
            None => self.0 = Some(fault),
        }
    }

    fn missing(&mut self, message: &str) {
        self.add(Error::new(Span::call_site(), message));
    }

    fn none(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

fn value<T: Parse>(name: &Ident, input: ParseStream<'_>) -> Result<T> {
    if !input.peek(Token![=]) {
        return Err(Error::new(name.span(), format!("`{name}` needs a value: `{name} = …`")));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

fn text(name: &Ident, input: ParseStream<'_>) -> Result<LitStr> {
    let mut value: Expr = value(name, input)?;
    // What a macro by example passes on comes in an invisible group.
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Ok(literal),
        other => {
            let message = format!("`{name}` is a text in quotes, known when the crate compiles");
            Err(Error::new_spanned(other, message))
        }
    }
}

fn read_label(label: LitStr) -> Result<LitStr> {
    let n_bytes = label.value().len();
    if n_bytes <= LABEL_MAX_BYTES {
        return Ok(label);
    }
    let message = format!("the label has {n_bytes} bytes, at most {LABEL_MAX_BYTES} fit");
    Err(Error::new(label.span(), message))
}

/// Passes over what is left of a faulty option, so that the next one can still be read.
fn skip_value(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

/// Reads the tokens in the brackets.
pub(crate) fn read(tokens: TokenStream) -> Result<Options> {
    syn::parse2(tokens)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let tokens = TokenStream::from_str(text).unwrap();
        match read(tokens) {
            Ok(_) => Vec::new(),
            Err(error) => error.into_iter().map(|fault| fault.to_string()).collect(),
        }
    }

    #[test]
    fn all_options_are_read_in_any_order() {
        let text = r#"busy = wait("5s"), barging, label = "a", ttl = "30s", locks = self.locks(),
            maximum_hold = "1m", key = "k","#;
        let options = read(TokenStream::from_str(text).unwrap()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(options.busy, Busy::Wait(Duration::from_secs(5)));
        assert_eq!(options.ttl, Some(Duration::from_secs(30)));
        assert_eq!(options.maximum_hold, Some(Duration::from_secs(60)));
        assert!(options.barging);
    }

    #[test]
    fn every_fault_is_reported_at_once_and_only_once() {
        let found = faults(r#"key = "", color = red(1), ttl = "1ms", busy = never"#);
        assert_eq!(found.len(), 5, "{found:#?}");
        let found = faults(r#"key = "a", key = "b", locks = x, busy = skip"#);
        assert_eq!(found, ["`key` is given twice; keep one"]);
    }

    #[test]
    fn what_is_missing_is_asked_for_with_the_choices() {
        let found = faults(r#"key = "a", locks = x"#);
        for choice in ["wait(\"5s\")", "forever", "fail", "skip"] {
            assert!(found[0].contains(choice), "{found:?}");
        }
    }
}
