-- Unlocks, and wakes those who wait. KEYS: lock. ARGV: owner, channel, "both" in a cluster, the queue of Redisson's fair
-- lock and the set with the ends of those who stand in it.
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) ~= 1 then
  return 0
end
redis.call('DEL', KEYS[1])

-- Who may not publish still unlocks: those who wait ask again by themselves.
local function tell(channel)
  redis.pcall('PUBLISH', channel, '0')
  if ARGV[3] == 'both' then
    -- In a cluster that has them, Redisson listens on the channels of a slot instead.
    redis.pcall('SPUBLISH', channel, '0')
  end
end
tell(ARGV[2])

-- Who waits for the fair lock hears on a channel of its own, and only the first who is not dead may come in. The dead
-- are told too: whose clock is right cannot be known from here, and those who are alive sort it out when they ask.
-- Queue and set are read only, and not named as keys: in a cluster they may be on their way to another node, or never
-- have been in the slot of the lock, and neither must keep it from being released.
local at, now = 0
repeat
  local waiter = redis.pcall('LINDEX', ARGV[4], at)
  if type(waiter) ~= 'string' then break end
  tell(ARGV[2] .. ':' .. waiter)
  local ends = redis.pcall('ZSCORE', ARGV[5], waiter)
  local time = not now and redis.pcall('TIME')
  now, at = now or time[1] and time[1] * 1000 + time[2] / 1000, at + 1
until type(ends) ~= 'string' or not now or tonumber(ends) > now
return 1
