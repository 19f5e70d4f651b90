-- Makes leases last longer. KEYS: locks. ARGV: owner and ttl for each. Answers 1 for each that is still
-- held by its owner.
local kept = {}
for i, lock in ipairs(KEYS) do
  local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local value = redis.call('GET', lock)
  kept[i] = 0
  if value and string.sub(value, 1, 32) == owner then
    kept[i] = redis.call('PEXPIRE', lock, ttl)
  elseif value and string.sub(value, 1, 1) == '!' and string.sub(value, 16, 47) == owner then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if tonumber(string.sub(value, 2, 14)) > now then
      local ends = string.format('%.0f', now + tonumber(ttl))
      redis.call('SET', lock, '!' .. ends .. string.sub(value, 15), 'PX', tonumber(ttl) + 3000)
      kept[i] = 1
    end
  end
end
return kept
