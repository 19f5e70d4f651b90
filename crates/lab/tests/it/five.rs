use lab::redis::{Five, Reply};

#[test]
fn five_servers_know_nothing_of_each_other() {
    let mut five = Five::start().unwrap();
    five.servers[0].command(&["SET", "a", "b"]).unwrap();
    for server in &five.servers[1..] {
        assert_eq!(server.command(&["GET", "a"]).unwrap(), Reply::Nil);
        assert!(five.url().contains(&server.address()));
    }
    assert!(five.url().starts_with(&format!("redlock://{},", five.servers[0].address())));
    five.servers[4].kill().unwrap();
    assert_eq!(five.servers[0].command(&["GET", "a"]).unwrap(), "b".into());
}
