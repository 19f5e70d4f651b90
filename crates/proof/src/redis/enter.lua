-- Lets a holder in. KEYS: what the lock protects. ARGV: the fence, in twenty digits.
-- Answers the count; refuses if somebody is inside, or the fence has not grown.
local inside, last = unpack(redis.call('HMGET', KEYS[1], 'inside', 'fence'))
if inside then
  return redis.error_reply('OVERLAP ' .. ARGV[1] .. ' came while ' .. inside .. ' was inside')
end
if last and last >= ARGV[1] then
  return redis.error_reply('FENCE ' .. ARGV[1] .. ' came after ' .. last)
end
redis.call('HSET', KEYS[1], 'inside', ARGV[1], 'fence', ARGV[1])
return tonumber(redis.call('HGET', KEYS[1], 'count') or '0')
