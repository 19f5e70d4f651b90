use lab::redis::{Client, Reply, Sentinels};

#[test]
fn sentinels_replace_a_primary_that_is_asked_to_go_or_killed() {
    let mut all = Sentinels::start().unwrap();
    assert_eq!(all.primary_number().unwrap(), 0);
    let mut client = all.primary().unwrap().client().unwrap();
    assert!(client.command(&["SET", "a", "b"]).unwrap().is_ok());
    assert_eq!(client.command(&["WAIT", "2", "10000"]).unwrap(), Reply::Int(2));

    let second = all.fail_over().unwrap();
    assert_ne!(second, 0);
    assert_eq!(all.primary().unwrap().command(&["GET", "a"]).unwrap(), "b".into());
    let refusal = all.servers[0].command(&["SET", "a", "c"]).unwrap();
    assert!(refusal.text().starts_with("READONLY"), "{refusal:?}");

    assert_eq!(all.kill_primary().unwrap(), second);
    let third = all.primary_number().unwrap();
    assert_ne!(third, second);
    assert_eq!(all.servers[third].command(&["GET", "a"]).unwrap(), "b".into());

    all.servers[second].restart().unwrap();
    let is_replica = || Ok(all.servers[second].info("role")? == "slave");
    lab::wait_until("the killed server is a replica", is_replica).unwrap();
    assert!(all.url().starts_with(&format!("redis+sentinel://{},", all.sentinels[0].address())));
    assert!(all.url().ends_with("/locks"));
}

#[test]
fn sentinels_and_servers_have_passwords_of_their_own() {
    let all = Sentinels::start_with_passwords("one", "two").unwrap();
    for (servers, right, wrong) in [(&all.servers, "one", "two"), (&all.sentinels, "two", "one")] {
        for server in servers {
            let mut client = Client::connect(server.port()).unwrap();
            assert!(client.command(&["INFO"]).unwrap().text().starts_with("NOAUTH"));
            assert!(client.command(&["AUTH", wrong]).unwrap().text().starts_with("WRONGPASS"));
            assert!(client.command(&["AUTH", right]).unwrap().is_ok());
        }
    }
    assert_ne!(all.fail_over().unwrap(), 0);
}
