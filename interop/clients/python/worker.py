"""Does with a client of Python what it is told, line by line; see interop/src/worker.rs."""

import sys
import time
import uuid

import pymemcache
import redis
import redis_lock
import redlock
from tooz import coordination


class RedisPy:
    def __init__(self, addresses):
        self.redis = redis.Redis.from_url(f"redis://{addresses[0]}")
        self.locks = {}

    def take(self, key, lease, blocking):
        lock = self.redis.lock(key, timeout=int(lease) / 1000)
        if not lock.acquire(blocking=blocking):
            return "busy"
        self.locks[key] = lock
        return "held"

    def unlock(self, key):
        try:
            self.locks[key].release()
            return "free"
        except redis.exceptions.LockError:
            return "refused"

    def extend(self, key, lease):
        self.locks[key].extend(int(lease) / 1000, replace_ttl=True)
        return "held"


class PythonRedisLock:
    RENEWED_SECONDS = 6

    def __init__(self, addresses):
        # It waits inside a call to the server, longer than redis-py bears by default.
        self.redis = redis.Redis.from_url(f"redis://{addresses[0]}", socket_timeout=None)
        self.locks = {}

    def take(self, key, lease, blocking):
        is_renewed = lease == "renewed"
        seconds = self.RENEWED_SECONDS if is_renewed else int(lease) // 1000
        lock = redis_lock.Lock(self.redis, key, expire=seconds, auto_renewal=is_renewed)
        if not lock.acquire(blocking=blocking):
            return "busy"
        self.locks[key] = lock
        return "held"

    def unlock(self, key):
        try:
            self.locks[key].release()
            return "free"
        except redis_lock.NotAcquired:
            return "refused"

    def extend(self, key, lease):
        self.locks[key].extend(int(lease) // 1000)
        return "held"


class RedlockPy:
    FOR_EVER = 10**9

    def __init__(self, addresses):
        servers = [f"redis://{address}" for address in addresses]
        self.once = redlock.Redlock(servers, retry_count=1, retry_delay=0.01)
        self.patient = redlock.Redlock(servers, retry_count=self.FOR_EVER, retry_delay=0.1)
        self.locks = {}

    def take(self, key, lease, blocking):
        lock = (self.patient if blocking else self.once).lock(key, int(lease))
        if not lock:
            return "busy"
        self.locks[key] = lock
        return "held"

    def unlock(self, key):
        # It does not say whether there was anything to unlock.
        self.once.unlock(self.locks[key])
        return "free"


class Tooz:
    def __init__(self, addresses):
        self.address = addresses[0]
        self.locks = {}

    def take(self, key, lease, blocking):
        # The lease belongs to the coordinator, and so does the name of the owner.
        seconds = max(1, int(lease) // 1000)
        url = f"memcached://{self.address}?lock_timeout={seconds}"
        coordinator = coordination.get_coordinator(url, uuid.uuid4().hex.encode())
        coordinator.start()
        lock = coordinator.get_lock(key.encode())
        if not lock.acquire(blocking=blocking):
            return "busy"
        self.locks[key] = lock
        return "held"

    def unlock(self, key):
        return "free" if self.locks[key].release() else "refused"

    def extend(self, key, lease):
        self.locks[key].timeout = int(lease) // 1000
        return "held" if self.locks[key].heartbeat() else "refused"


class PymemcacheAdd:
    """The usual recipe: add a token with an expiry, compare it before anything else is done."""

    def __init__(self, addresses):
        self.memcached = pymemcache.Client(addresses[0])
        self.tokens = {}

    def take(self, key, lease, blocking):
        token = uuid.uuid4().hex.encode()
        seconds = max(1, int(lease) // 1000)
        while not self.memcached.add(key, token, expire=seconds, noreply=False):
            if not blocking:
                return "busy"
            time.sleep(0.05)
        self.tokens[key] = token
        return "held"

    def unlock(self, key):
        value, cas = self.memcached.gets(key)
        if value != self.tokens[key]:
            return "refused"
        # In the past: deleted, and only if nobody has changed it meanwhile.
        return "free" if self.memcached.cas(key, value, cas, expire=-1) else "refused"

    def extend(self, key, lease):
        value, cas = self.memcached.gets(key)
        if value != self.tokens[key]:
            return "refused"
        done = self.memcached.cas(key, value, cas, expire=int(lease) // 1000)
        return "held" if done else "refused"


CLIENTS = {
    "tooz": Tooz,
    "pymemcache-add": PymemcacheAdd,
    "redis-py": RedisPy,
    "python-redis-lock": PythonRedisLock,
    "redlock-py-five": RedlockPy,
}


def answer(client, command, *words):
    match command:
        case "try":
            return client.take(*words, blocking=False)
        case "wait":
            return client.take(*words, blocking=True)
        case "unlock":
            return client.unlock(*words)
        case "extend":
            return client.extend(*words)
    return "unknown"


def main():
    name, *addresses = sys.argv[1:]
    client = CLIENTS[name](addresses)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            print(answer(client, *line.split()), flush=True)
        except Exception as error:
            print("error", repr(error).replace("\n", " "), flush=True)


main()
