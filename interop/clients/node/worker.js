// Does with a client of Node what it is told, line by line; see interop/src/worker.rs.

import readline from 'node:readline';
import { Redis } from 'ioredis';
import { Redisson } from 'node-redisson';
import Redlock, { ExecutionError } from 'redlock';

const [client, ...addresses] = process.argv.slice(2);

function hostAndPort(address) {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
}

class NodeRedlock {
  static FOR_EVER = -1;
  static RENEWED_MS = 6000;

  constructor() {
    const servers = addresses.map((address) => new Redis(hostAndPort(address)));
    this.redlock = new Redlock(servers, { retryDelay: 100, retryJitter: 50 });
    // Servers that are out of reach are told of here too; the answer to the call says enough.
    this.redlock.on('error', () => {});
    this.releases = new Map();
  }

  async try(key, lease) {
    return this.take(key, lease, 0);
  }

  async wait(key, lease) {
    return this.take(key, lease, NodeRedlock.FOR_EVER);
  }

  async take(key, lease, retryCount) {
    try {
      if (lease === 'renewed') {
        await this.takeRenewed(key, retryCount);
      } else {
        const lock = await this.redlock.acquire([key], Number(lease), { retryCount });
        this.releases.set(key, () => lock.release());
      }
      return 'held';
    } catch (error) {
      if (error instanceof ExecutionError) return 'busy';
      throw error;
    }
  }

  /** Held, and renewed by the library, until the routine that it guards comes to its end. */
  takeRenewed(key, retryCount) {
    const settings = { retryCount, automaticExtensionThreshold: 4000 };
    return new Promise((taken, failed) => {
      const guarded = () =>
        new Promise((done) => {
          this.releases.set(key, () => {
            done();
            return all;
          });
          taken();
        });
      const all = this.redlock.using([key], NodeRedlock.RENEWED_MS, settings, guarded);
      all.catch(failed);
    });
  }

  async unlock(key) {
    try {
      await this.releases.get(key)();
      return 'free';
    } catch (error) {
      if (error instanceof ExecutionError) return 'refused';
      throw error;
    }
  }
}

class NodeRedisson {
  constructor() {
    this.redisson = new Redisson({ redis: { options: hostAndPort(addresses[0]) } });
    this.locks = new Map();
  }

  /** One for each key: to this library a lock is an owner. */
  lock(key) {
    if (!this.locks.has(key)) this.locks.set(key, this.redisson.getLock(key));
    return this.locks.get(key);
  }

  async try(key, lease) {
    return (await this.lock(key).tryLock(0n, NodeRedisson.lease(lease))) ? 'held' : 'busy';
  }

  async wait(key, lease) {
    await this.lock(key).lock(NodeRedisson.lease(lease));
    return 'held';
  }

  async unlock(key) {
    try {
      await this.lock(key).unlock();
      return 'free';
    } catch (error) {
      // It has an error of its own for that, but does not export it.
      if (error.message.includes('not locked by current client')) return 'refused';
      throw error;
    }
  }

  async force(key) {
    return (await this.lock(key).forceUnlock()) ? 'free' : 'busy';
  }

  static lease(word) {
    return word === 'renewed' ? true : BigInt(word);
  }
}

const clients = {
  'node-redlock': NodeRedlock,
  'node-redlock-five': NodeRedlock,
  'node-redisson': NodeRedisson,
};
const worker = new clients[client]();
console.log('ready');
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(' ');
  try {
    console.log(await worker[command](...words));
  } catch (error) {
    console.log(`error ${String(error).replaceAll('\n', ' ')}`);
  }
}
process.exit();
