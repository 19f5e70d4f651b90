-- Makes leases last longer. KEYS: locks. ARGV: owner and ttl for each. Answers 1 for each that is still
-- held by its owner.
local kept = {}
for i, lock in ipairs(KEYS) do
  local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local value = redis.call('GET', lock)
  kept[i] = 0
  if value and string.sub(value, 1, 32) == owner then
    kept[i] = redis.call('PEXPIRE', lock, ttl)
  elseif value and string.sub(value, 2, 33) == owner and redis.call('PTTL', lock) > 3000 then
    -- It outlives its lease by the longest place.
    kept[i] = redis.call('PEXPIRE', lock, ttl + 3000)
  end
end
return kept
