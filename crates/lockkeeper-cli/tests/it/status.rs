//! `who`, `ls` and `tidy`.

use crate::support::{Place, code, until};

fn printed(place: &Place, args: &[&str]) -> String {
    let output = place.output(args);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(output.stderr, b"");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn who_names_the_holder_and_the_line() {
    let place = Place::new();
    let free = format!("\"k\" at {} is free\n", place.url());
    assert_eq!(printed(&place, &["who", "k"]), free);
    let holder = place.start(&["--label", "night\nly \x1b[31m"], "touch started; sleep 600");
    let waiter = place.spawn(&["run", "k", "--", "true"]);
    place.until_waiting(1);
    until("the label is shown", || printed(&place, &["who", "k"]).contains("night"));

    let text = printed(&place, &["who", "k"]);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["STATE", "PID", "HOST", "SINCE", "FENCE", "LABEL"]);
    assert_eq!(lines[1][..2], ["holds", &holder.pid().to_string()]);
    assert_eq!(lines[2][..2], ["waits", &waiter.pid().to_string()]);
    assert_eq!(lines[1][5..], ["night\\nly", "\\u{1b}[31m"]);
    let since = lines[1][3];
    assert!(since.len() == 20 && since.ends_with('Z') && since.contains('T'), "{since}");

    let json = printed(&place, &["who", "--json", "k"]);
    let (url, pid) = (place.url(), holder.pid());
    let start = format!("{{\"key\":\"k\",\"place\":\"{url}\",\"holder\":{{\"pid\":{pid},");
    assert!(json.starts_with(&start), "{json}");
    assert!(json.contains(&format!("\"since\":\"{since}\"")), "{json}");
    assert!(json.contains(r#""label":"night\u000aly \u001b[31m""#), "{json}");
    assert!(json.contains(&format!("\"line\":[{{\"pid\":{},", waiter.pid())), "{json}");
}

#[test]
fn a_holder_without_a_label_is_called_like_its_command() {
    let place = Place::new();
    let _holder = place.start(&[], "touch started; sleep 600");
    until("the label is shown", || printed(&place, &["who", "k"]).contains(" sh\n"));
}

#[test]
fn ls_lists_keys_held_or_not() {
    let place = Place::new();
    assert_eq!(printed(&place, &["ls"]), "");
    assert_eq!(printed(&place, &["ls", "--json"]), "[]\n");
    assert_eq!(code(&place.output(&["run", "a\nb", "--", "true"])), 0);
    let _holder = place.start(&[], "touch started; sleep 600");
    assert_eq!(
        printed(&place, &["ls"]),
        "STATE  WAITING  KEY\nfree   0        a\\nb\nheld   0        k\n"
    );
    assert_eq!(
        printed(&place, &["ls", "--json"]),
        "[{\"key\":\"a\\u000ab\",\"held\":false,\"waiting\":0},\
         {\"key\":\"k\",\"held\":true,\"waiting\":0}]\n"
    );
}

#[test]
fn tidy_removes_what_is_idle_and_nothing_else() {
    let place = Place::new();
    assert_eq!(code(&place.output(&["run", "old", "--", "true"])), 0);
    let _holder = place.start(&[], "touch started; sleep 600");
    assert_eq!(printed(&place, &["tidy"]), "cleaned up 0 keys\n");
    assert_eq!(printed(&place, &["tidy", "--idle", "0s"]), "cleaned up 1 key\n");
    assert_eq!(printed(&place, &["ls"]), "STATE  WAITING  KEY\nheld   0        k\n");
}
