use lab::redis::{Cluster, Reply};

#[test]
fn a_cluster_moves_slots_and_replaces_a_killed_primary() {
    let mut cluster = Cluster::start().unwrap();
    let slot = cluster.slot_of("a").unwrap();
    let from = cluster.node_of(slot).unwrap();
    let mut primaries = cluster.primaries().unwrap();
    primaries.sort_unstable();
    assert_eq!(primaries, [0, 1, 2]);
    let to = (from + 1) % 3;
    assert!(cluster.nodes[from].command(&["SET", "a", "b"]).unwrap().is_ok());
    let moved = format!("MOVED {slot} {}", cluster.nodes[from].address());
    assert_eq!(cluster.nodes[to].command(&["GET", "a"]).unwrap(), Reply::Error(moved));

    cluster.begin_move(slot, to).unwrap();
    assert_eq!(cluster.nodes[from].command(&["GET", "a"]).unwrap(), "b".into());
    let ask = Reply::Error(format!("ASK {slot} {}", cluster.nodes[to].address()));
    assert_eq!(cluster.nodes[from].command(&["GET", "{a}2"]).unwrap(), ask);
    cluster.finish_move(slot, to).unwrap();
    assert_eq!(cluster.node_of(slot).unwrap(), to);
    assert_eq!(cluster.nodes[to].command(&["GET", "a"]).unwrap(), "b".into());
    cluster.move_slot(slot, from).unwrap();
    assert_eq!(cluster.nodes[from].command(&["GET", "a"]).unwrap(), "b".into());

    let mut client = cluster.nodes[from].client().unwrap();
    assert!(client.command(&["SET", "a", "c"]).unwrap().is_ok());
    assert_eq!(client.command(&["WAIT", "1", "10000"]).unwrap(), Reply::Int(1));
    assert_eq!(cluster.kill_primary_of(slot).unwrap(), from);
    let replica = cluster.node_of(slot).unwrap();
    assert_eq!(replica, from + 3);
    assert_eq!(cluster.nodes[replica].command(&["GET", "a"]).unwrap(), "c".into());
    cluster.nodes[from].restart().unwrap();
    assert_eq!(cluster.node_of(slot).unwrap(), replica);
    assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));
    assert_eq!(cluster.url().matches(',').count(), 2);
}
