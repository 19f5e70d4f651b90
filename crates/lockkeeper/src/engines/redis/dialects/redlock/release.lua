-- Unlocks what an owner has of this round or an earlier one. KEYS: lock. ARGV: what stands there in this round,
-- as "owner~round".
local holder, mine = redis.pcall('GET', KEYS[1]), ARGV[1]
if holder == mine or type(holder) == 'string' and string.sub(holder, 1, 33) == string.sub(mine, 1, 33)
  and tonumber(string.sub(holder, 34)) <= tonumber(string.sub(mine, 34)) then
  return redis.call('DEL', KEYS[1])
end
return 0
