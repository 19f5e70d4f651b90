-- Unlocks, or leaves the line. KEYS: lock, and line and counter if there may be a line. ARGV: owner, and the second it
-- is if that is known. Answers 1 if nobody waited, 2 if the lock was handed over, 0 if it was not ours.
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, 32) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
