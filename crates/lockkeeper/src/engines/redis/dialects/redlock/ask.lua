-- Asks for a lock by an owner who may have it already.
-- KEYS: lock, counter. ARGV: owner, round, ttl, how many fence numbers a grant takes.
-- Answers "kept" if it was ours in this round, or "granted", with the last of its numbers; or "busy" and in
-- how many milliseconds the lease is over.
local mine = ARGV[1] .. '~' .. ARGV[2]
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then return holder end
if holder and string.sub(holder, 1, 33) ~= ARGV[1] .. '~' then
  if dialect_of(holder) == 'native' then
    return redis.error_reply('WRONGTYPE it is a lock of the native dialect')
  end
  return { 'busy', redis.call('PTTL', KEYS[1]) }
end
redis.call('SET', KEYS[1], mine, 'PX', ARGV[3])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last < 1e15 then
  local time = redis.call('TIME')
  last = time[1] * 4000000 + time[2] * 4
end
last = string.format('%.0f', last + ARGV[4])
redis.call('SET', KEYS[2], last, 'PX', 10 * 24 * 3600 * 1000)
return { holder == mine and 'kept' or 'granted', last }
