//! Functions of every shape; none makes a warning.
#![deny(warnings)]

use std::{
    fmt::Display,
    sync::{Arc, LazyLock},
};

use lockkeeper::{Guard, Locks, Result, blocking, locked};

/// Its own error, as most users have.
#[derive(Debug)]
pub struct Fault(String);

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub struct Ledger<T> {
    locks: Arc<Locks>,
    lines: Vec<T>,
}

impl<T: Display + Clone> Ledger<T> {
    fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Documented, visible, generic, and still so.
    #[inline]
    #[locked(key = "{self.lines.len()}", locks = self.locks(), busy = wait("1m 30s"))]
    pub async fn first(&self) -> Result<&T, Fault> {
        self.lines.first().ok_or_else(|| Fault("empty".to_owned()))
    }

    #[locked(key = "{line}", locks = self.locks.clone(), busy = forever)]
    pub async fn push<'a>(&'a mut self, line: T) -> Result<&'a mut T, Fault>
    where
        T: 'a,
    {
        self.lines.push(line);
        let last = self.lines.len() - 1;
        Ok(&mut self.lines[last])
    }

    #[locked(key = "{line}", locks = self.locks, busy = fail)]
    pub fn push_plainly(&mut self, line: T, guard: &blocking::Guard) -> Result<&mut T, Fault> {
        if guard.fence() == 0 {
            return Err(Fault("no fence".to_owned()));
        }
        self.lines.push(line);
        let last = self.lines.len() - 1;
        Ok(&mut self.lines[last])
    }

    #[locked(key = "all", locks = self.locks, busy = fail)]
    pub async fn all(self: Arc<Self>) -> Result<impl Iterator<Item = String>, Fault>
    where
        T: 'static,
    {
        let lines: Vec<_> = self.lines.iter().map(ToString::to_string).collect();
        Ok(lines.into_iter())
    }

    #[locked(key = "all", locks = self.locks, busy = fail)]
    pub fn all_plainly(&self) -> Result<impl Iterator<Item = &T> + '_, Fault> {
        Ok(self.lines.iter())
    }

    #[locked(key = "boxed", locks = self.locks, busy = skip)]
    pub async fn boxed(&self, number: &str) -> Result<Option<Box<dyn Display + Send>>, Fault> {
        let number: u32 = number.parse()?;
        if number == 0 {
            return Ok(None);
        }
        Ok(Some(Box::new(number)))
    }

    #[locked(key = "{a}{b}{N}", locks = locks, busy = fail)]
    async fn patterns<const N: usize>(
        locks: &Locks,
        (a, b): (u8, u8),
        mut sum: usize,
        _: &str,
        more: impl Into<usize>,
    ) -> Result<usize, Fault> {
        sum += usize::from(a) + usize::from(b) + N + more.into();
        Ok(sum)
    }
}

pub trait Settle {
    fn settle(&self) -> impl Future<Output = Result<u64>> + Send;
    fn count(&self) -> Result<usize>;
}

impl Settle for Ledger<u8> {
    #[locked(key = "settle", locks = self.locks, busy = forever)]
    async fn settle(&self, guard: &Guard) -> Result<u64> {
        Ok(guard.fence())
    }

    #[locked(key = "count", locks = self.locks, busy = forever)]
    fn count(&self) -> Result<usize> {
        Ok(self.lines.len())
    }
}

macro_rules! locked_counter {
    ($name:ident, $key:literal, $locks:expr, $limit:literal) => {
        #[locked(key = $key, locks = $locks, busy = wait($limit))]
        fn $name(n: usize, #[cfg(any())] absent: usize, guard: &Guard) -> Result<String> {
            Ok(format!("{n} {}", guard.key()))
        }
    };
}

static LOCKS: LazyLock<Locks> =
    LazyLock::new(|| blocking::block_on(Locks::connect("memory:")).unwrap());

locked_counter!(counter, "made by a macro", LOCKS, "5s");

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let locks = Arc::new(Locks::connect("memory:").await?);
    let mut ledger = Ledger { locks: Arc::clone(&locks), lines: vec![1u8] };
    assert_eq!(*assert_send(ledger.first()).await?, 1);
    assert_eq!(*assert_send(ledger.push(2)).await?, 2);
    assert_eq!(*ledger.push_plainly(3)?, 3);
    assert_eq!(ledger.all_plainly()?.count(), 3);
    assert_eq!(ledger.boxed("7").await?.map(|n| n.to_string()).as_deref(), Some("7"));
    assert!(ledger.boxed("seven").await.is_err());
    assert_eq!(Ledger::<u8>::patterns::<4>(&locks, (1, 2), 3, "", 5u8).await?, 15);
    assert!(assert_send(ledger.settle()).await? > 0);
    assert_eq!(ledger.count()?, 3);
    assert_eq!(assert_send(Arc::new(ledger).all()).await?.collect::<String>(), "123");
    assert_eq!(counter(1)?, "1 made by a macro");
    Ok(())
}
