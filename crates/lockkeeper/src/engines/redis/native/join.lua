-- The common way to ask for a lock that is not simply free: it has a line already, and one who has not asked before
-- means to wait. Answers 0; whether the lease is over is not looked at, whoever asks again will see. Arguments as in
-- what follows.
local clock = redis.call('PTTL', KEYS[2])
if clock > 110000 and not ARGV[4] then
  redis.call('RPUSH', KEYS[2], ARGV[1] .. string.format('%d', clock - 3000) .. ARGV[2])
  return 0
end
