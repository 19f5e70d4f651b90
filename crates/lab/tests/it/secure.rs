use std::process::Command;

use lab::redis::{Client, Secure};

/// What the server says to a command that comes over an encrypted connection.
fn ask(secure: &Secure, args: &[&str], command: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["--tls", "--no-auth-warning", "-h", "localhost", "-p", &secure.port().to_string()])
        .args(args)
        .args(command)
        .output()
        .unwrap();
    let (answer, errors) = (output.stdout, output.stderr);
    String::from_utf8([answer, errors].concat()).unwrap().trim().to_owned()
}

#[test]
fn users_come_in_encrypted_with_the_rights_they_have() {
    let mut secure = Secure::start().unwrap();
    let authority = secure.ca_path().display().to_string();
    let nobody = ["--cacert", authority.as_str()];
    assert!(ask(&secure, &nobody, &["PING"]).starts_with("NOAUTH"));
    let admin = [&nobody[..], &["--user", "admin", "--pass", secure.admin_password()]].concat();
    assert_eq!(ask(&secure, &admin, &["PING"]), "PONG");

    secure.add_user("worker on >secret ~locks:* &* +@all").unwrap();
    let worker = [&nobody[..], &["--user", "worker", "--pass", "secret"]].concat();
    assert_eq!(ask(&secure, &worker, &["SET", "locks:a", "b"]), "OK");
    assert!(ask(&secure, &worker, &["SET", "other", "b"]).starts_with("NOPERM"));
    secure.server.restart().unwrap();
    assert_eq!(ask(&secure, &worker, &["SET", "locks:a", "b"]), "OK");
    assert!(secure.add_user("worker no-such-rule").is_err());
    let end = format!("worker:secret@127.0.0.1:{}", secure.port());
    assert_eq!(secure.url_for("worker", "secret"), format!("rediss://{end}"));
}

#[test]
fn a_stranger_s_certificate_and_plain_words_are_refused() {
    let (secure, other) = (Secure::start().unwrap(), Secure::start().unwrap());
    let wrong = ["--cacert", other.ca_path().to_str().unwrap()];
    assert!(ask(&secure, &wrong, &["PING"]).contains("certificate verify failed"));
    let mut plain = Client::connect(secure.port()).unwrap();
    assert!(plain.command(&["PING"]).is_err());
}

#[test]
fn a_client_can_be_asked_for_its_certificate() {
    let secure = Secure::start_with(&["--tls-auth-clients", "yes"]).unwrap();
    let authority = ["--cacert", secure.ca_path().to_str().unwrap()];
    assert!(!ask(&secure, &authority, &["PING"]).starts_with("NOAUTH"));
    let cert = ["--cert", secure.client_cert().to_str().unwrap()];
    let key = ["--key", secure.client_key().to_str().unwrap()];
    let all = [authority, cert, key].concat();
    assert!(ask(&secure, &all, &["PING"]).starts_with("NOAUTH"));
}
