-- Makes leases last longer. KEYS: locks. ARGV: owner and ttl for each. Answers 1 for each that is still
-- held by its owner. What is no hash is not ours, and must not keep the others from being renewed.
local kept = {}
for i, lock in ipairs(KEYS) do
  kept[i] = 0
  if redis.pcall('HEXISTS', lock, ARGV[2 * i - 1]) == 1 then
    kept[i] = redis.call('PEXPIRE', lock, ARGV[2 * i])
  end
end
return kept
