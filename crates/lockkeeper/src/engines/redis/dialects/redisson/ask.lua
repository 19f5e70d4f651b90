-- Asks for a lock. KEYS: lock. ARGV: owner, ttl.
local lock, owner, ttl = KEYS[1], ARGV[1], ARGV[2]
local is_ours = redis.pcall('HEXISTS', lock, owner)
if type(is_ours) == 'table' then
  return { 'strange', redis.call('TYPE', lock).ok }
end
if is_ours == 1 or redis.call('EXISTS', lock) == 0 then
  -- Set, not counted up as Redisson does: a claim enters once, but may have to ask twice.
  redis.call('HSET', lock, owner, 1)
  redis.call('PEXPIRE', lock, ttl)
  return { 'granted' }
end
-- A lock has one holder, with the number of times it has entered.
if redis.call('HLEN', lock) ~= 1 or not tonumber(redis.call('HVALS', lock)[1]) then
  return { 'strange', 'hash' }
end
return { 'busy', redis.call('PTTL', lock) }
