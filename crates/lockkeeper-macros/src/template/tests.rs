use proc_macro2::Span;
use quote::ToTokens;

use super::*;

fn read(text: &str) -> Result<Template> {
    Template::read(&LitStr::new(text, Span::call_site()))
}

#[track_caller]
fn check(text: &str, format: &str, placeholders: &[&str]) {
    let template = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found: Vec<_> = template
        .placeholders
        .iter()
        .map(|value| value.to_token_stream().to_string().replace(' ', ""))
        .collect();
    assert_eq!(
        (template.format.as_str(), found),
        (format, placeholders.iter().map(|p| (*p).into()).collect()),
        "{text}"
    );
}

#[track_caller]
fn check_fault(text: &str, part: &str) {
    match read(text) {
        Ok(_) => panic!("{text:?} was taken"),
        Err(error) => assert!(error.to_string().contains(part), "{text:?}: {error}"),
    }
}

#[test]
fn placeholders_hold_fields_calls_and_expressions() {
    check("nightly", "nightly", &[]);
    check("order:{order.id}", "order:{:}", &["order.id"]);
    check("{self.tenant}/{ids[0]}", "{:}/{:}", &["self.tenant", "ids[0]"]);
    check("{a.b().c(1, x)}", "{:}", &["a.b().c(1,x)"]);
    check("{n + 1}{crate::NAME}", "{:}{:}", &["n+1", "crate::NAME"]);
    check("{pair.0}", "{:}", &["pair.0"]);
}

#[test]
fn a_format_stands_behind_a_colon_that_is_not_a_path() {
    check("{n:04}", "{:04}", &["n"]);
    check("{n:*^+#12.3x?}", "{:*^+#12.3x?}", &["n"]);
    check("{kind:?}", "{:?}", &["kind"]);
    check("{a::B}", "{:}", &["a::B"]);
    check("{a::B:>8}", "{:>8}", &["a::B"]);
    check("{f(|x: u32| x)}", "{:}", &["f(|x:u32|x)"]);
    for text in ["{n:width$}", "{n:.*}", "{n:p}", "{n:4.}", "{n:wide}"] {
        check_fault(text, "may end in a format");
    }
}

#[test]
fn doubled_braces_are_text() {
    check("{{a}}", "{{a}}", &[]);
    assert_eq!(read("{{a}}").unwrap_or_else(|e| panic!("{e}")).tokens().to_string(), "\"{a}\"");
    check("{{{a}}}", "{{{:}}}", &["a"]);
}

#[test]
fn braces_and_quotes_inside_a_placeholder_do_not_end_it() {
    check(r#"{m["}"]}"#, "{:}", &[r#"m["}"]"#]);
    check(r#"{m["\"}"]}"#, "{:}", &[r#"m["\"}"]"#]);
    check("{s.find('}')}", "{:}", &["s.find('}')"]);
    check(r"{s.find('\'')}", "{:}", &[r"s.find('\'')"]);
    check("{f::<'static>(a)}x", "{:}x", &["f::<'static>(a)"]);
    check("{ {a} }", "{:}", &["{a}"]);
}

#[test]
fn what_cannot_be_a_key_is_refused_with_the_reason() {
    check_fault("", "empty");
    check_fault(&"x".repeat(513), "513 bytes");
    check_fault("a{b", "not closed");
    check_fault("a}b", "closes nothing");
    check_fault("a{}b", "empty");
    check_fault("a{ :04}b", "empty");
    check_fault("a{0}b", "always the same");
    check_fault("a{b c}d", "cannot be read");
    check_fault("a{f(b}d", "partner");
    check_fault("a{f(b]}d", "partner");
    check_fault("a{b\"}d", "partner");
}

#[test]
fn the_longest_key_fits_and_braces_count_once() {
    assert!(read(&"x".repeat(512)).is_ok());
    assert!(read(&"{{".repeat(512)).is_ok());
    check_fault(&"é".repeat(257), "514 bytes");
}
