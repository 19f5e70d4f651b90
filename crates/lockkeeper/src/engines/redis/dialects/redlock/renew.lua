-- Makes a lease last longer. KEYS: lock. ARGV: value, ttl. Answers 1 if it is still ours.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
