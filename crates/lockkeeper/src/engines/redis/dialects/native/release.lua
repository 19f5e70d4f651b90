-- Unlocks, or leaves the line. KEYS: lock, and line and counter if there may be a line. ARGV: owner. Answers 1 if nobody
-- waited, 2 if the lock was handed over, 0 if it was not ours.
local value = redis.call('GET', KEYS[1])
local owner_at = value and string.find(value, ARGV[1], 1, true)
if owner_at == 1 then
  return redis.call('DEL', KEYS[1])
end
