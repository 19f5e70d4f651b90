-- Asks for a lock that was not simply free. KEYS: lock. ARGV: owner, ttl.
local value = redis.pcall('GET', KEYS[1])
if not value then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return { 'granted' }
end
if type(value) == 'table' then
  return { 'strange', redis.call('TYPE', KEYS[1]).ok }
end
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 'granted' }
end
local dialect = dialect_of(value)
if dialect then
  return { 'strange', dialect }
end
return { 'busy', redis.call('PTTL', KEYS[1]) }
