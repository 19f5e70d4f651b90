-- Unlocks, and wakes those who wait. KEYS: lock. ARGV: owner, channel, "both" in a cluster.
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) ~= 1 then
  return 0
end
redis.call('DEL', KEYS[1])
-- Who may not publish still unlocks: those who wait ask again by themselves.
redis.pcall('PUBLISH', ARGV[2], '0')
if ARGV[3] == 'both' then
  -- In a cluster that has them, Redisson listens on the channels of a slot instead.
  redis.pcall('SPUBLISH', ARGV[2], '0')
end
return 1
