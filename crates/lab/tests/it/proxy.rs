use std::{
    io,
    net::TcpStream,
    time::{Duration, Instant},
};

use lab::{
    proxy::{Proxy, Then, Way},
    redis::{Client, Reply, Server},
};

fn lab() -> (Server, Proxy, Client) {
    let server = Server::start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    let mut client = Client::connect(proxy.port()).unwrap();
    // The system takes a connection before the proxy knows of it.
    assert_eq!(client.command(&["PING"]).unwrap(), "PONG".into());
    (server, proxy, client)
}

/// Nothing comes, and the connection is not closed either.
fn assert_silent(client: &mut Client) {
    client.be_patient_for(Duration::from_millis(200)).unwrap();
    let error = client.receive().unwrap_err();
    assert!(is_silence(&error), "{error}");
    client.be_patient_for(Duration::from_secs(20)).unwrap();
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn assert_cut(client: &mut Client) {
    let error = client.command(&["PING"]).and_then(|_| client.command(&["PING"])).unwrap_err();
    assert!(!is_silence(&error), "{error}");
}

#[test]
fn it_passes_everything_on_and_counts() {
    let (server, proxy, mut client) = lab();
    let large = "x".repeat(1 << 20);
    assert!(client.command(&["SET", "a", &large]).unwrap().is_ok());
    assert_eq!(client.command(&["GET", "a"]).unwrap(), large.as_str().into());
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.open), (1, 1));
    assert!(counts.bytes_up > 1 << 20 && counts.bytes_down > 1 << 20, "{counts:?}");
    drop(client);
    lab::wait_until("the connection is closed", || Ok(proxy.counts().open == 0)).unwrap();
    drop(server);
    let mut client = Client::connect(proxy.port()).unwrap();
    assert_cut(&mut client);
}

#[test]
fn a_lost_reply_was_run_and_its_connection_is_silent() {
    let (server, proxy, mut client) = lab();
    proxy.lose_replies(1, "incr", Then::Silence);
    assert!(!proxy.has_lost_replies());
    assert_eq!(client.command(&["PING"]).unwrap(), "PONG".into());
    client.send(&["INCR", "a"]).unwrap();
    client.send(&["PING"]).unwrap();
    assert_silent(&mut client);
    assert!(proxy.has_lost_replies());
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "1".into());
    let mut other = Client::connect(proxy.port()).unwrap();
    assert_eq!(other.command(&["INCR", "a"]).unwrap(), Reply::Int(2));
}

#[test]
fn a_lost_reply_can_cut_its_connection() {
    let (server, proxy, mut client) = lab();
    proxy.lose_replies(2, "", Then::Cut);
    for _ in 0..2 {
        assert!(client.command(&["INCR", "a"]).is_err());
        client = Client::connect(proxy.port()).unwrap();
    }
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "2".into());
    assert_eq!(client.command(&["INCR", "a"]).unwrap(), Reply::Int(3));
}

#[test]
fn replies_are_counted_among_pushed_messages() {
    let (server, proxy, mut client) = lab();
    client.send(&["HELLO", "3"]).unwrap();
    client.send(&["CLIENT", "ID"]).unwrap();
    client.send(&["SUBSCRIBE", "c", "d"]).unwrap();
    lab::wait_until("it is subscribed", || {
        Ok(server.command(&["PUBLISH", "d", "x"])? == Reply::Int(1))
    })
    .unwrap();
    proxy.lose_replies(1, "DEL", Then::Cut);
    client.send(&["GET", "a"]).unwrap();
    client.send(&["DEL", "a"]).unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("$7\r\nmessage\r\n$1\r\nd\r\n$1\r\nx\r\n"), "{text}");
    assert!(text.ends_with("_\r\n"), "{text}");
}

#[test]
fn a_black_hole_swallows_and_new_connections_work_once_it_is_healed() {
    let (server, proxy, mut client) = lab();
    let mut idle = Client::connect(proxy.port()).unwrap();
    proxy.black_hole();
    client.send(&["INCR", "a"]).unwrap();
    assert_silent(&mut client);
    let mut during = Client::connect(proxy.port()).unwrap();
    during.send(&["PING"]).unwrap();
    assert_silent(&mut during);
    proxy.heal();
    client.send(&["PING"]).unwrap();
    assert_silent(&mut client);
    assert_eq!(idle.command(&["PING"]).unwrap(), "PONG".into());
    let mut after = Client::connect(proxy.port()).unwrap();
    assert_eq!(after.command(&["GET", "a"]).unwrap(), Reply::Nil);
    assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);
}

#[test]
fn what_is_held_comes_through_later() {
    let (server, proxy, mut client) = lab();
    proxy.hold(Way::Down);
    client.send(&["INCR", "a"]).unwrap();
    assert_silent(&mut client);
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "1".into());
    proxy.heal();
    assert_eq!(client.receive().unwrap(), Reply::Int(1));

    proxy.hold(Way::Up);
    client.send(&["INCR", "a"]).unwrap();
    assert_silent(&mut client);
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "1".into());
    proxy.heal();
    assert_eq!(client.receive().unwrap(), Reply::Int(2));
}

#[test]
fn a_delay_is_a_delay_each_way() {
    const PAUSE: Duration = Duration::from_millis(100);
    let (_server, proxy, mut client) = lab();
    proxy.delay(Way::Up, PAUSE);
    proxy.delay(Way::Down, PAUSE);
    let sent_at = Instant::now();
    assert_eq!(client.command(&["PING"]).unwrap(), "PONG".into());
    assert!(sent_at.elapsed() >= 2 * PAUSE);
}

#[test]
fn connections_are_cut_and_refused_and_taken_again() {
    let (_server, proxy, mut client) = lab();
    proxy.cut();
    assert_cut(&mut client);
    let mut open = Client::connect(proxy.port()).unwrap();
    assert_eq!(open.command(&["PING"]).unwrap(), "PONG".into());
    for _ in 0..20 {
        proxy.refuse();
        let error = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        proxy.accept_again();
        let mut client = Client::connect(proxy.port()).unwrap();
        assert_eq!(client.command(&["PING"]).unwrap(), "PONG".into());
    }
    assert_eq!(open.command(&["PING"]).unwrap(), "PONG".into());
}

#[test]
fn a_frame_is_cut_in_the_middle_either_way() {
    let (server, proxy, mut client) = lab();
    proxy.cut_mid_frame(Way::Up);
    assert!(client.command(&["INCR", "a"]).is_err());
    assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);

    let mut client = Client::connect(proxy.port()).unwrap();
    proxy.cut_after(Way::Down, 2);
    client.send(&["INCR", "a"]).unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b":1");
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "1".into());
}

#[test]
fn a_request_is_sent_once_more() {
    let (server, proxy, mut client) = lab();
    assert_eq!(proxy.replay("incr").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(client.command(&["INCR", "a"]).unwrap(), Reply::Int(1));
    assert_eq!(client.command(&["PING"]).unwrap(), "PONG".into());
    assert_eq!(proxy.replay("incr").unwrap(), [Reply::Int(2)]);
    assert_eq!(server.command(&["GET", "a"]).unwrap(), "2".into());
}

#[test]
fn dripping_bytes_are_put_together_again() {
    let (_server, proxy, mut client) = lab();
    proxy.drip();
    let text = "x".repeat(1000);
    assert_eq!(client.command(&["ECHO", &text]).unwrap(), text.as_str().into());
}

#[test]
fn a_dropped_proxy_leaves_no_connection() {
    let (server, proxy, mut client) = lab();
    assert_eq!(client.command(&["PING"]).unwrap(), "PONG".into());
    proxy.hold(Way::Up);
    client.send(&["PING"]).unwrap();
    drop(proxy);
    assert_cut(&mut client);
    lab::wait_until("only the one who asks is there", || {
        Ok(server.info("connected_clients")? == "1")
    })
    .unwrap();
}
