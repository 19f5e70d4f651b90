-- Writes what the lock protects. KEYS: its name. ARGV: the fence, in twenty digits, and the count as
-- the writer has reckoned it, which is taken whatever it is. Answers the count and the number of this
-- step; refuses a fence smaller than it has seen. Counts what it took, and what was lost thereby.
local last = redis.call('HGET', KEYS[1], 'fence')
if last and ARGV[1] < last then
  return redis.error_reply('STALE ' .. ARGV[1] .. ' came after ' .. last)
end
local before = tonumber(redis.call('HGET', KEYS[1], 'count') or '0')
if tonumber(ARGV[2]) ~= before + 1 then
  redis.call('HINCRBY', KEYS[1], 'lost', 1)
end
redis.call('HSET', KEYS[1], 'count', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'taken', 1)
return redis.status_reply(ARGV[2] .. ' ' .. redis.call('HINCRBY', KEYS[1], 'step', 1))
