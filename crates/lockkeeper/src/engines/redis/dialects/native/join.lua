-- The common way to ask for a lock that is not simply free: it has a line already, and one who has not asked before
-- means to wait. Answers 0; whether the lease is over is not looked at, whoever asks again will see. Arguments as in
-- what follows.
local LONGEST_PLACE = 3000 -- ms
local clock = redis.call('PTTL', KEYS[2])
local starts_anew = clock <= 110000
if not starts_anew and not ARGV[3] then
  redis.call('RPUSH', KEYS[2], struct.pack('<c0I4', ARGV[1], clock - LONGEST_PLACE))
  return 0
end
