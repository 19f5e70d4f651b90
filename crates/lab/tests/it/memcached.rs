//! A Memcached server of the lab.

use lab::{
    memcached::Memcached,
    proxy::{Proxy, Then},
};

#[test]
fn a_server_answers_and_forgets_when_it_is_started_again() {
    let mut server = Memcached::start().unwrap();
    assert_eq!(server.command("ms a 1 T60 ME\r\nx\r\nmg a v\r\n").unwrap(), "HD\r\nVA 1\r\nx\r\n");
    server.stop().unwrap();
    server.go_on().unwrap();
    assert_eq!(server.command("ms a 1 T60 ME\r\nx\r\n").unwrap(), "NS\r\n");
    server.restart().unwrap();
    assert_eq!(server.command("mg a v\r\n").unwrap(), "EN\r\n");
}

/// What the server does with a name that is too long: one command, two answers.
#[test]
fn a_name_that_is_too_long_is_answered_twice() {
    let server = Memcached::start().unwrap();
    let answers = server.command(format!("ms {} 1 T60\r\nx\r\n", "n".repeat(251))).unwrap();
    assert_eq!(answers, "CLIENT_ERROR bad command line format\r\nERROR\r\n");
}

#[test]
fn a_proxy_loses_the_reply_of_the_command_it_is_told() {
    use std::io::{Read, Write};
    let server = Memcached::start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    proxy.lose_replies(1, "ms b ", Then::Cut);
    let mut stream = std::net::TcpStream::connect(proxy.address()).unwrap();
    stream.write_all(b"ms a 1 T60 c\r\nx\r\nms b 1 T60 c\r\nx\r\nms c 1 T60 c\r\nx\r\n").unwrap();
    let mut answers = String::new();
    // A cut connection may end with an error.
    let _ = stream.read_to_string(&mut answers);
    assert_eq!(answers, "HD c1\r\n");
    assert_eq!(server.command("mg b v\r\n").unwrap(), "VA 1\r\nx\r\n", "it was carried out");
}
