-- Lets a holder write and go. KEYS: what the lock protects. ARGV: the fence, in twenty digits, and the
-- count as the holder has reckoned it. Answers it; refuses if somebody else is inside.
local inside = redis.call('HGET', KEYS[1], 'inside')
if inside ~= ARGV[1] then
  return redis.error_reply('OVERLAP ' .. ARGV[1] .. ' leaves, but inside is ' .. tostring(inside))
end
redis.call('HDEL', KEYS[1], 'inside')
redis.call('HSET', KEYS[1], 'count', ARGV[2])
return tonumber(ARGV[2])
