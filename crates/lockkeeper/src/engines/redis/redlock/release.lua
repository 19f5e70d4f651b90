-- Unlocks what an owner has of this round or an earlier one. KEYS: lock. ARGV: owner, round.
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'string' and string.sub(holder, 1, 33) == ARGV[1] .. ':'
  and tonumber(string.sub(holder, 34)) <= tonumber(ARGV[2]) then
  return redis.call('DEL', KEYS[1])
end
return 0
