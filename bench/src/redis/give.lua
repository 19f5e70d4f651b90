-- Gives the key to the first in the queue and tells it, or frees it.
-- KEYS: the key, its queue. ARGV: the owner, the ttl in milliseconds.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local next = redis.call('LPOP', KEYS[2])
if next then
  redis.call('SET', KEYS[1], next, 'PX', ARGV[2])
  redis.call('PUBLISH', next, '1')
else
  redis.call('DEL', KEYS[1])
end
return 1
