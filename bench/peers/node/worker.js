// The Node peer: node-redlock over ioredis. Spoken to as src/redis/talk.rs says.
'use strict';

const readline = require('node:readline');
const Redis = require('ioredis');
const Redlock = require('redlock');

const TTL_MS = 30_000;
const addresses = process.argv.slice(2);
const opened = new Map();

function open() {
  const servers = addresses.map((address) => {
    const [host, port] = address.split(':');
    return new Redis({ host, port: Number(port) });
  });
  // As it comes, but it does not give up after ten tries.
  return new Redlock(servers, { retryCount: -1 });
}

/** One for all with a key each; one for each contender when they are to be like programs. */
function redlocks(keys, nContenders) {
  const name = `${keys} ${nContenders}`;
  if (!opened.has(name)) {
    const shared = keys === 'same' ? null : open();
    opened.set(name, Array.from({ length: nContenders }, () => shared ?? open()));
  }
  return opened.get(name);
}

async function contend(number, redlock, key, last, endsAt, times) {
  let [nCycles, nHandOvers] = [0, 0];
  while (performance.now() < endsAt) {
    const begunAt = process.hrtime.bigint();
    const lock = await redlock.lock(key, TTL_MS);
    // What comes after the end is not counted.
    if (performance.now() < endsAt) {
      nCycles += 1;
      nHandOvers += last.number === number ? 0 : 1;
      last.number = number;
    }
    await lock.unlock();
    times?.push(Number(process.hrtime.bigint() - begunAt));
  }
  return { nCycles, nHandOvers };
}

async function run(variant, keys, nContenders, milliseconds) {
  if (variant !== 'node-redlock') throw new Error(`no variant is called ${variant}`);
  const shared = { number: -1 };
  const times = nContenders === 1 ? [] : undefined;
  const all = redlocks(keys, nContenders);
  const endsAt = performance.now() + milliseconds;
  const counts = await Promise.all(all.map((redlock, number) => {
    const [key, last] =
      keys === 'same' ? [variant, shared] : [`${variant}:${number}`, { number: -1 }];
    return contend(number, redlock, key, last, endsAt, times);
  }));
  const cycles = counts.map((count) => count.nCycles);
  const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
  times?.sort((one, other) => one - other);
  const p50 = times?.[times.length >> 1] ?? 0;
  const nHandOvers = sum(counts.map((count) => count.nHandOvers));
  const [least, most] = [Math.min(...cycles), Math.max(...cycles)];
  return [sum(cycles), milliseconds * 1000, p50, nHandOvers, least, most].join(' ');
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [variant, keys, nContenders, milliseconds] = line.split(' ');
    const answer = run(variant, keys, Number(nContenders), Number(milliseconds));
    console.log(await answer.catch((error) => `error: ${error.message}`));
  }
  process.exit(0);
}

main();
