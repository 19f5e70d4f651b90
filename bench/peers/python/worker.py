"""The Python peers: redis-py's Lock and python-redis-lock. Spoken to as src/redis/talk.rs says."""

import sys
import threading
import time

import redis
import redis_lock

TTL_S = 30


class Contender:
    """Takes and gives back one key until the time is over."""

    def __init__(self, number, take, last, ends_at):
        self.number, self.take, self.last, self.ends_at = number, take, last, ends_at
        self.n_cycles = self.n_hand_overs = 0
        self.times = []
        self.error = None

    def run(self):
        try:
            while time.monotonic() < self.ends_at:
                begun_at = time.perf_counter_ns()
                held = self.take()
                # What comes after the end is not counted.
                if time.monotonic() < self.ends_at:
                    self.n_cycles += 1
                    self.n_hand_overs += self.last[0] != self.number
                    self.last[0] = self.number
                held.release()
                self.times.append(time.perf_counter_ns() - begun_at)
        except Exception as error:
            self.error = error


def taker(variant, server, key):
    def with_redis_py():
        lock = server.lock(key, timeout=TTL_S)
        lock.acquire()
        return lock

    def with_python_redis_lock():
        lock = redis_lock.Lock(server, key, expire=TTL_S)
        lock.acquire()
        return lock

    return {"redis-py": with_redis_py, "python-redis-lock": with_python_redis_lock}[variant]


def run(server, variant, keys, n_contenders, milliseconds):
    nobody = lambda: [None]
    shared = nobody()
    ends_at = time.monotonic() + milliseconds / 1000
    contenders = []
    for number in range(n_contenders):
        same = keys == "same"
        key = variant if same else f"{variant}:{number}"
        last = shared if same else nobody()
        contenders.append(Contender(number, taker(variant, server, key), last, ends_at))
    threads = [threading.Thread(target=contender.run) for contender in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for contender in contenders:
        if contender.error is not None:
            raise contender.error
    counts = [contender.n_cycles for contender in contenders]
    n_hand_overs = sum(contender.n_hand_overs for contender in contenders)
    times = sorted(contenders[0].times)
    p50 = times[len(times) // 2] if n_contenders == 1 and times else 0
    return sum(counts), milliseconds * 1000, p50, n_hand_overs, min(counts), max(counts)


def main():
    host, port = sys.argv[1].split(":")
    server = redis.Redis(host=host, port=int(port), max_connections=1000)
    for line in sys.stdin:
        try:
            variant, keys, n_contenders, milliseconds = line.split()
            print(*run(server, variant, keys, int(n_contenders), int(milliseconds)), flush=True)
        except Exception as error:
            print("error:", repr(error), flush=True)


main()
