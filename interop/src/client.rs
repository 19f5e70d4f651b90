//! The clients of other languages, and what each of them can do.

/// One of them.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// How we have to be asked to share with it.
    pub(crate) sharing: Sharing,
    /// Whether the same owner may come in twice.
    pub(crate) reenters: bool,
    /// How its leases are made to last longer.
    pub(crate) renewal: Renewal,
    /// Whether it is told that a lock which it wanted to unlock was not its own.
    pub(crate) refuses: bool,
    /// What cannot be shared, for the reader of the table.
    pub(crate) but: &'static str,
}

/// What its worker is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
    Java,
}

/// The servers, and our URL for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    Plain {
        prefix: &'static str,
    },
    Redisson,
    RedissonFair,
    RedissonInCluster,
    Redlock,
    /// What stands after the `?` of our URL, and before the key at the server.
    Memcached {
        parameters: &'static str,
        prefix: &'static str,
    },
}

impl Sharing {
    /// Whether ours who wait are told of a release of theirs by a message.
    pub(crate) fn tells_us(self) -> bool {
        matches!(self, Self::Redisson | Self::RedissonInCluster)
    }

    /// Whether theirs who wait are told of a release of ours by a message.
    pub(crate) fn is_told(self) -> bool {
        self.tells_us() || self == Self::RedissonFair
    }
}

/// How a client makes its leases last longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    None,
    /// When its user asks for it.
    ByHand,
    /// By itself, with these milliseconds.
    ByItself {
        lease: i64,
        every: i64,
    },
}

pub(crate) const CLIENTS: [Client; 11] = [
    Client {
        name: "redis-py",
        language: Language::Python,
        sharing: Sharing::Plain { prefix: "" },
        reenters: false,
        renewal: Renewal::ByHand,
        refuses: true,
        but: "nobody is told of a release: both sides ask again and again",
    },
    Client {
        name: "python-redis-lock",
        language: Language::Python,
        sharing: Sharing::Plain { prefix: "lock:" },
        reenters: false,
        renewal: Renewal::ByItself { lease: 6000, every: 4000 },
        refuses: true,
        but: "its own wake-up list is not written by us: after a release of ours, one of its waiters \
              sleeps until its own `timeout` or `expire` is over, and without either, for ever",
    },
    Client {
        name: "node-redlock",
        language: Language::Node,
        sharing: Sharing::Plain { prefix: "" },
        reenters: false,
        renewal: Renewal::ByItself { lease: 6000, every: 2000 },
        refuses: true,
        but: "nobody is told of a release: both sides ask again and again",
    },
    Client {
        name: "node-redisson",
        language: Language::Node,
        sharing: Sharing::Redisson,
        reenters: true,
        renewal: Renewal::ByItself { lease: 30_000, every: 10_000 },
        refuses: true,
        but: "it names the channel of a key such as `a{b}` otherwise than Redisson and we do: no \
              wake-up there",
    },
    Client {
        name: "redisson",
        language: Language::Java,
        sharing: Sharing::Redisson,
        reenters: true,
        renewal: Renewal::ByItself { lease: 30_000, every: 10_000 },
        refuses: true,
        but: "",
    },
    Client {
        name: "redisson-fair",
        language: Language::Java,
        sharing: Sharing::RedissonFair,
        reenters: true,
        renewal: Renewal::ByItself { lease: 30_000, every: 10_000 },
        refuses: true,
        but: "we do not stand in its queue: we may come in before those who do, and its release tells \
              only them, so ours who wait ask again every second",
    },
    Client {
        name: "redisson-cluster",
        language: Language::Java,
        sharing: Sharing::RedissonInCluster,
        reenters: true,
        renewal: Renewal::ByItself { lease: 30_000, every: 10_000 },
        refuses: true,
        but: "",
    },
    Client {
        name: "node-redlock-five",
        language: Language::Node,
        sharing: Sharing::Redlock,
        reenters: false,
        renewal: Renewal::ByItself { lease: 6000, every: 2000 },
        refuses: true,
        but: "nobody is told of a release: both sides ask again and again",
    },
    Client {
        name: "redlock-py-five",
        language: Language::Python,
        sharing: Sharing::Redlock,
        reenters: false,
        renewal: Renewal::None,
        refuses: false,
        but: "it renews nothing, and does not say when it unlocks what is not its own",
    },
    Client {
        name: "tooz",
        language: Language::Python,
        sharing: Sharing::Memcached { parameters: "?dialect=tooz", prefix: "__TOOZ_LOCK_" },
        reenters: false,
        renewal: Renewal::ByHand,
        refuses: true,
        but: "nobody is told of a release; its own release is get, compare, delete, so it may delete ours \
              when its lease runs out in between",
    },
    Client {
        name: "pymemcache-add",
        language: Language::Python,
        sharing: Sharing::Memcached { parameters: "", prefix: "" },
        reenters: false,
        renewal: Renewal::ByHand,
        refuses: true,
        but: "nobody is told of a release: both sides ask again and again",
    },
];
