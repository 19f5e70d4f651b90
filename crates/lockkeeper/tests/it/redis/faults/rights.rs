//! A user with the fewest rights, over TLS: as the page of the engine says, and not one more.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use lab::redis::{Secure, Server};
use lockkeeper::{ErrorKind, Locks, Result};
use tokio::task::JoinSet;

use crate::tools::LONG;

pub(super) const PAGE: &str = include_str!("../../../../src/engines/redis/page.md");
const REDLOCK_PAGE: &str = include_str!("../../../../src/engines/redis/dialects/redlock/page.md");
/// Renewed after a third of it, which is also when a waiter asks again.
const TTL: Duration = Duration::from_secs(3);

/// How often everything is done before a right counts as not needed.
const N_ROUNDS: usize = 5;

/// What the page says after `ACL SETUSER worker on >secret` for a dialect.
pub(super) fn rights(dialect: &str) -> Vec<&'static str> {
    let mut lines = PAGE.lines().skip_while(|line| *line != format!("# {dialect}"));
    let line = lines.nth(1).unwrap_or_else(|| panic!("the page has no line for {dialect}"));
    let words = line.strip_prefix("ACL SETUSER worker on >secret ").unwrap();
    words.split(' ').collect()
}

/// A place where users have rights.
pub(super) struct Place {
    pub(super) servers: Vec<Secure>,
    dialect: &'static str,
    ca: PathBuf,
}

impl Place {
    pub(super) fn start(dialect: &'static str) -> Self {
        let n_servers = if dialect == "redlock" { 3 } else { 1 };
        let servers: Vec<_> = (0..n_servers).map(|_| Secure::start().unwrap()).collect();
        for server in &servers {
            // Room for what all users are denied; with the usual 128, the first are forgotten.
            server.server.config_set("acllog-max-len", "100000").unwrap();
        }
        // Each has an authority of its own.
        let authorities =
            servers.iter().map(|server| fs::read_to_string(server.ca_path()).unwrap());
        let ca = servers[0].server.folder().join("authorities.crt");
        fs::write(&ca, authorities.collect::<String>()).unwrap();
        Self { servers, dialect, ca }
    }

    pub(super) fn add_user(&self, name: &str, rights: &[&str]) {
        let line = format!("{name} on >secret {}", rights.join(" "));
        self.servers.iter().for_each(|server| server.add_user(&line).unwrap());
    }

    fn url(&self, user: &str) -> String {
        self.url_at(self.servers.iter().map(Secure::port), user)
    }

    /// The URL for a user who comes by these ports.
    pub(super) fn url_at(&self, ports: impl Iterator<Item = u16>, user: &str) -> String {
        let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        let (scheme, end) = match self.dialect {
            "redlock" => ("redlocks", "prefix=app:"),
            "native" => ("rediss", "dialect=native"),
            "plain" => ("rediss", "dialect=plain&prefix=app:"),
            _ => ("rediss", "dialect=redisson&prefix=app:"),
        };
        format!("{scheme}://{user}:secret@{}?ca={}&{end}", hosts.join(","), self.ca.display())
    }

    /// Puts something at a key that is no lock, where such keys can meet those of others.
    fn spoil(&self, key: &str, command: &str, words: &[&str]) {
        if self.dialect == "native" {
            return;
        }
        let name = format!("app:{key}");
        let words = [&[command, &name], words].concat();
        for server in &self.servers {
            server.server.command(&words).unwrap().not_an_error().unwrap();
        }
    }

    fn denials(&self, user: &str) -> Vec<String> {
        denials(self.servers.iter().map(|server| &server.server), user)
    }
}

/// Has two stand in the queue of Redisson's fair lock, the first of whom is dead, where there is such a queue.
fn line_up(place: &Place, key: &str) {
    if place.dialect != "redisson" {
        return;
    }
    let beside = |name: &str| format!("redisson_lock_{name}:{{app:{key}}}");
    let (queue, ends) = (beside("queue"), beside("timeout"));
    for words in [
        &["RPUSH", &queue, "first", "second"][..],
        &["ZADD", &ends, "1", "first", "9007199254740991", "second"],
    ] {
        place.servers[0].server.command(words).unwrap().not_an_error().unwrap();
    }
}

/// What a user was denied so far.
pub(super) fn denials<'a>(servers: impl Iterator<Item = &'a Server>, user: &str) -> Vec<String> {
    let mut denials = Vec::new();
    for server in servers {
        for entry in server.command(&["ACL", "LOG", "100000"]).unwrap().list() {
            let field = |name: &str| {
                let mut fields = entry.list().chunks_exact(2);
                fields.find(|pair| pair[0].text() == name).map(|pair| pair[1].text())
            };
            if field("username").as_deref() == Some(user) {
                denials.extend(field("object"));
            }
        }
    }
    denials
}

/// Everything that a user of locks does. Each user has keys of its own.
async fn use_locks(place: &Place, user: &str) -> Result<()> {
    let url = place.url(user);
    let (one, two) = (Locks::connect(&url).await?, Locks::connect(&url).await?);
    let key = format!("{user}:a");
    line_up(place, &key);
    let guard = one.lock(&key).ttl(TTL).acquire().await?;
    assert!(two.lock(&key).try_acquire().await?.is_none(), "{user} was let in twice");
    // One waits for long enough to ask twice and gives up, the next one is served. It is one with locks
    // of its own: others might go on with the claim that it leaves behind.
    let three = Locks::connect(&url).await?;
    match three.lock(&key).ttl(TTL).acquire_within(TTL / 2).await {
        Err(error) if error.kind() == ErrorKind::TimedOut => {}
        other => return other.map(drop),
    }
    let lock = two.lock(&key).ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire_within(LONG).await });
    tokio::time::sleep(TTL / 2).await;
    guard.release().await?;
    waiter.await.unwrap()?.release().await?;
    one.lock(&key).acquire().await?.release().await?;
    let mut many = Vec::new();
    for n in 0..8 {
        many.push(one.lock(&format!("{user}:many:{n}")).acquire().await?);
    }
    drop(many);
    match one.list().await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        list => drop(list?),
    }
    look_at_strangers(place, &one, user).await
}

/// Keys with something else at them are told from locks.
async fn look_at_strangers(place: &Place, locks: &Locks, user: &str) -> Result<()> {
    for (n, (command, words)) in
        [("LPUSH", &["x"][..]), ("HSET", &["x", "y"])].into_iter().enumerate()
    {
        let key = format!("{user}:{n}");
        place.spoil(&key, command, words);
        match locks.lock(&key).try_acquire().await {
            Err(error) if error.kind() != ErrorKind::Refused => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The line on the page is enough, and every word of it is needed.
async fn are_exact(dialect: &'static str) {
    let (place, rights) = (Place::start(dialect), rights(dialect));
    place.add_user("full", &rights);
    use_locks(&place, "full").await.unwrap();
    assert_eq!(place.denials("full"), [""; 0]);
    let place = Arc::new(place);
    let mut users = JoinSet::new();
    for (n, word) in rights.iter().copied().enumerate() {
        let name = format!("user{n}");
        let others: Vec<_> = rights.iter().copied().filter(|other| *other != word).collect();
        place.add_user(&name, &others);
        let place = Arc::clone(&place);
        users.spawn(async move {
            // Not more often: looking blocks the thread that others need.
            let denied = async {
                while place.denials(&name).is_empty() {
                    tokio::time::sleep(TTL / 10).await;
                }
            };
            let use_locks = async {
                // On a busy machine, one who waits may give up before it stands in line, and an
                // answer may come too late: only a denial tells.
                for _ in 0..N_ROUNDS {
                    if use_locks(&place, &name).await.is_err() {
                        tokio::time::sleep(TTL / 10).await;
                    }
                }
                // Some goes on in the background.
                tokio::time::sleep(TTL).await;
            };
            tokio::select! {
                () = denied => None,
                () = use_locks => Some(word),
            }
        });
    }
    let not_needed: Vec<_> = users.join_all().await.into_iter().flatten().collect();
    assert!(not_needed.is_empty(), "{dialect}: {not_needed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_for_native_are_exact() {
    are_exact("native").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_for_plain_are_exact() {
    are_exact("plain").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_for_redisson_are_exact() {
    are_exact("redisson").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_for_redlock_are_exact() {
    are_exact("redlock").await;
}

/// The line on the page of Redlock is the same, word by word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_on_the_page_of_redlock_are_enough() {
    let line = REDLOCK_PAGE.lines().find_map(|line| line.strip_prefix("ACL SETUSER ")).unwrap();
    let place = Place::start("redlock");
    for server in &place.servers {
        server.add_user(line).unwrap();
    }
    use_locks(&place, "worker").await.unwrap();
    assert_eq!(place.denials("worker"), [""; 0]);
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(words, [&["worker", "on", ">secret"], &rights("redlock")[..]].concat());
}
