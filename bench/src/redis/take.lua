-- Takes a free key, or stands in the queue.
-- KEYS: the key, its queue. ARGV: the owner, the ttl in milliseconds.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0
