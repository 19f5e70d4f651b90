//! No secret of a URL is shown or stands in the environment, and what is no secret stays.

use lab::redis::{Sentinels, Server};

use crate::support::{Place, code, fails_with};

const CANARY: &str = "canary";

/// The output of a call must not hold the canary anywhere.
fn without_canary(output: &std::process::Output) -> String {
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains(CANARY), "{said}");
    said
}

#[test]
fn a_password_with_a_space_in_it_is_passed_on_without_standing_in_the_environment() {
    let server = Server::start().unwrap();
    server.config_set("requirepass", "pa canary").unwrap();
    let place = Place::with_locks_at(server.url().replace("redis://", "redis://:pa canary@"));
    let output = place.output(&["run", "k", "--", "env"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(without_canary(&output).contains("LOCKKEEPER_URL_FROM="));
}

#[test]
fn the_password_of_the_sentinels_is_a_secret_too() {
    let all = Sentinels::start_with_passwords("canary", "canary").unwrap();
    let hosts = all.url().replace("redis+sentinel://", "");
    let url = format!("redis+sentinel://:canary@{hosts}?sentinel-password=canary&prefix=p");
    let place = Place::with_locks_at(url);
    let seen = format!("redis+sentinel://{hosts}?prefix=p");
    let output = place.output(&["run", "k", "--", "env"]);
    assert!(without_canary(&output).contains("LOCKKEEPER_URL_FROM="), "{output:?}");
    let _holder = place.start(&[], "touch started; sleep 600");
    for args in [&["who", "k"][..], &["who", "--json", "k"], &["try", "k", "--", "true"]] {
        let said = without_canary(&place.output(args));
        assert!(said.contains(&seen), "{said}");
    }
}

#[test]
fn usage_errors_show_no_password() {
    let place = Place::new();
    for url in [
        "redis+sentinel://h:7431/m?sentinel-password=canary",
        "redis+sentinel://h:7431/m?Sentinel%2DPassword=it's canary",
        "redis://sp:pa canary@host",
        "redis://sp:can'canary@host",
        "redlock:?servers=redis%3A%2F%2F%3Acanary%40h",
    ] {
        for args in [&["who", "k", url][..], &["run", url, url], &["--frob", url], &[url]] {
            let said = fails_with(64, &place.output(args));
            assert!(!said.contains(CANARY), "{args:?}: {said}");
        }
        let output = place.output(&["run", "--within", url, "k", "--", "true"]);
        let said = fails_with(64, &output);
        assert!(!said.contains(CANARY) && said.contains("--within"), "{said}");
    }
    let said = fails_with(64, &place.output(&["who", "k", "redis://host/7"]));
    assert!(said.contains("'redis://host/7'"), "{said}");
}

#[test]
fn the_busy_line_and_who_show_the_whole_place_and_no_more() {
    let server = Server::start().unwrap();
    let place = Place::with_locks_at(format!("{}?prefix=x@y", server.url()));
    let who = place.output(&["who", "k"]);
    assert_eq!(
        String::from_utf8(who.stdout).unwrap(),
        format!("\"k\" at {} is free\n", place.url())
    );
    let _holder = place.start(&[], "touch started; sleep 600");
    let said = fails_with(75, &place.output(&["try", "k", "--", "true"]));
    assert!(said.contains(&format!(" at {} is busy", place.url())), "{said}");
}

#[test]
fn an_at_sign_in_a_folder_is_no_password() {
    let place = Place::new();
    let url = format!("file://{}", place.path("a@b").display());
    let place = Place::with_locks_at(url.clone());
    let output = place.output(&["run", "k", "--", "printenv", "LOCKKEEPER_URL"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), url + "\n");
}
