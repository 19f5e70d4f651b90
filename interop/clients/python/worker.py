"""Does with a client of Python what it is told, line by line; see interop/src/worker.rs."""

import sys

import redis
import redis_lock
import redlock


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


CLIENTS = {
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
