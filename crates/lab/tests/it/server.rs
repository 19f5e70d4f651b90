use std::{io, path::Path, time::Duration};

use lab::redis::{Reply, Server};

#[test]
fn a_server_answers_and_tells_about_itself() {
    let server = Server::start().unwrap();
    assert!(server.command(&["SET", "a", "b"]).unwrap().is_ok());
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "b".into());
    assert_eq!(server.command(&["GET", "c"]).unwrap(), Reply::Nil);
    assert!(matches!(server.command(&["INCR", "a"]).unwrap(), Reply::Error(_)));
    assert_eq!(server.n_calls("get").unwrap(), 2);
    assert_eq!(server.n_calls("del").unwrap(), 0);
    assert_eq!(server.info("role").unwrap(), "master");
    server.config_set("maxmemory", "7mb").unwrap();
    let setting = server.command(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(setting.list()[1].int(), Some(7 << 20));
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
}

#[test]
fn a_dropped_server_is_gone_with_its_folder() {
    let server = Server::start().unwrap();
    let (pid, folder) = (server.pid(), server.folder().path().to_owned());
    assert!(Path::new(&format!("/proc/{pid}")).exists() && folder.exists());
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}

#[test]
fn a_restarted_server_is_empty_unless_it_has_a_file() {
    let mut server = Server::start().unwrap();
    let (port, run_id) = (server.port(), server.run_id().unwrap());
    server.command(&["SET", "a", "b"]).unwrap();
    server.kill().unwrap();
    server.kill().unwrap();
    assert!(server.client().is_err());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.run_id().unwrap(), run_id);
    assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);

    let mut server =
        Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    server.command(&["SET", "a", "b"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "b".into());
    server.restart_empty().unwrap();
    assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);
}

#[test]
fn a_stopped_server_answers_when_it_goes_on() {
    let server = Server::start().unwrap();
    let mut client = server.client().unwrap();
    server.stop().unwrap();
    client.send(&["PING"]).unwrap();
    let stat = format!("/proc/{}/stat", server.pid());
    let is_stopped = || Ok(std::fs::read_to_string(&stat)?.contains(") T "));
    lab::wait_until("the server is stopped", is_stopped).unwrap();
    server.go_on().unwrap();
    assert_eq!(client.receive().unwrap(), "PONG".into());
}

#[test]
fn a_monitor_sees_what_others_run() {
    let server = Server::start().unwrap();
    let mut monitor = server.monitor().unwrap();
    server.command(&["SET", "a", "b"]).unwrap();
    assert!(monitor.receive().unwrap().text().ends_with("\"SET\" \"a\" \"b\""));
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let error = Server::start_with(&["--no-such-setting", "1"]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Other);
    assert!(error.to_string().contains("no-such-setting"), "{error}");

    let other = Server::start().unwrap();
    let error = Server::start_with(&["--port", &other.port().to_string()]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
}

#[test]
fn a_clock_that_is_set_ahead_ends_leases_and_goes_back() {
    let mut server = Server::start_with_own_clock().unwrap();
    let now = || {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        i64::try_from(since_1970.unwrap().as_secs()).unwrap()
    };
    let ahead_by = |server: &Server, before: i64| {
        server.command(&["TIME"]).unwrap().list()[0].int().unwrap() - before
    };
    let hour = Duration::from_secs(3_600);
    server.command(&["SET", "a", "b", "PX", "1800000"]).unwrap();
    assert!((0..1_800).contains(&ahead_by(&server, now())));
    server.set_clock_ahead(hour).unwrap();
    assert!((3_600..5_400).contains(&ahead_by(&server, now())));
    assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);
    server.restart().unwrap();
    assert!((3_600..5_400).contains(&ahead_by(&server, now())));
    server.set_clock_ahead(Duration::ZERO).unwrap();
    assert!((0..1_800).contains(&ahead_by(&server, now())));
    let error = Server::start().unwrap().set_clock_ahead(hour).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}
