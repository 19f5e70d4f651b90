-- Reads what the lock protects. KEYS: its name. ARGV: the fence, in twenty digits.
-- Answers the count and the number of this step; refuses a fence smaller than it has seen.
local last = redis.call('HGET', KEYS[1], 'fence')
if last and ARGV[1] < last then
  return redis.error_reply('STALE ' .. ARGV[1] .. ' came after ' .. last)
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
local count = redis.call('HGET', KEYS[1], 'count') or '0'
return redis.status_reply(count .. ' ' .. redis.call('HINCRBY', KEYS[1], 'step', 1))
