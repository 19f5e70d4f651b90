-- Raises a fence counter to a number that was found at another server. KEYS: counter. ARGV: number.
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', 10 * 24 * 3600 * 1000)
end
return 1
