//! What some set-ups need in addition: as the page of the engine says, and not one more.

use lab::redis::{Cluster, Sentinels, Server};
use lockkeeper::{Locks, Result};

use super::{
    rights::{PAGE, denials, rights},
    site::until,
};

/// The page names these rights together; who has them is denied nothing, and every one is needed.
async fn are_exact(
    servers: &[Server],
    basic: &[&str],
    further: &str,
    url: impl Fn(&str) -> String,
) {
    assert!(PAGE.contains(&format!("`{further}`")), "the page says nothing of {further}");
    let further: Vec<_> = further.split(' ').collect();
    use_locks(servers, "full", &[basic, &further].concat(), &url).await.unwrap();
    assert_eq!(denials(servers.iter(), "full"), [""; 0]);
    for (n, word) in further.iter().enumerate() {
        let user = format!("user{n}");
        let others: Vec<_> = further.iter().copied().filter(|other| other != word).collect();
        let rights = [basic, &others].concat();
        // Refused at once or later: the denial tells.
        let _ = use_locks(servers, &user, &rights, &url).await;
        until(&format!("a denial without {word}"), || !denials(servers.iter(), &user).is_empty())
            .await;
    }
}

/// Has a user with these rights and no history connect and ask for a lock.
async fn use_locks(
    servers: &[Server],
    user: &str,
    rights: &[&str],
    url: impl Fn(&str) -> String,
) -> Result<()> {
    let set = [&["ACL", "SETUSER", user, "reset", "on", ">secret"], rights].concat();
    for server in servers {
        for words in [&["ACL", "LOG", "RESET"][..], &set] {
            server.command(words).unwrap().not_an_error().unwrap();
        }
    }
    let locks = Locks::connect(&url(user)).await?;
    // Replicas may be missing, or a right: who was let in may still be denied this.
    drop(locks.lock("the-key").try_acquire().await);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_and_replicas_need_a_right_each() {
    let servers = [Server::start().unwrap()];
    let address = servers[0].address();
    are_exact(&servers, &rights("native"), "+select", |user| {
        format!("redis://{user}:secret@{address}/1")
    })
    .await;
    are_exact(&servers, &rights("native"), "+wait", |user| {
        format!("redis://{user}:secret@{address}?wait-replicas=1")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_for_a_cluster_are_exact() {
    let cluster = Cluster::start().unwrap();
    // A slot that is on its way has users sent elsewhere for its new keys.
    let guard = Locks::connect(&cluster.url()).await.unwrap().lock("the-key").acquire().await;
    let names = |node: &Server| node.command(&["KEYS", "*the-key"]).unwrap();
    let primaries = cluster.primaries().unwrap();
    let from = primaries.iter().find(|number| !names(&cluster.nodes[**number]).list().is_empty());
    let from = *from.unwrap();
    let slot = cluster.slot_of(&names(&cluster.nodes[from]).list()[0].text()).unwrap();
    guard.unwrap().release().await.unwrap();
    let to = primaries.into_iter().find(|number| *number != from).unwrap();
    cluster.begin_move(slot, to).unwrap();
    let further = "+cluster|info +cluster|slots +asking";
    are_exact(&cluster.nodes, &rights("native"), further, |user| {
        cluster.url().replace("://", &format!("://{user}:secret@"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_at_sentinels_are_exact() {
    let all = Sentinels::start().unwrap();
    let further = "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels \
                   +subscribe &+switch-master &+promoted-slave";
    are_exact(&all.sentinels, &[], further, |user| {
        format!("{}?sentinel-user={user}&sentinel-password=secret", all.url())
    })
    .await;
}
