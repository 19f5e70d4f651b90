-- Asks for a lock that is not simply free.
-- KEYS: lock. ARGV: "owner|since|info"; the ttl; how long a place lasts; the rest of a place, from its lease on;
-- and letters: "w" if it waits, "b" if it barges, "a" if it asks again, "l" if the fence counter was lifted before.
-- Answers "granted" and the first fence, or "kept" if it was ours already; or "busy" and in how many
-- milliseconds the lease is over; or "strange".
local mine, letters = ARGV[1], ARGV[5]
local owner = sub(mine, 1, 32)

local function is(letter)
  return string.find(letters, letter, 1, true)
end

-- Who holds the lock, until when, and the value if not everybody knows that there is a line.
local function holder()
  local value = redis.call('GET', lock)
  if not value then return nil end
  if sub(value, 1, 1) == '!' then
    return sub(value, 16, 47), tonumber(sub(value, 2, 14))
  end
  return sub(value, 1, 32), now + redis.call('PTTL', lock), value
end

local who, ends, unmarked = holder()
if who and (#who ~= 32 or not ends) then return 'strange' end
local is_ours, is_free = who == owner and ends > now, not who or ends <= now

if is_ours or is_free then
  local first = first_in_line()
  if is_ours or not first or first == owner or is('b') then
    if is('a') then leave_line(owner) end
    local value, lease = mine, ARGV[2]
    if first then
      value, lease = '!' .. digits(now + lease) .. '|' .. mine, digits(lease + LONGEST_PLACE)
    end
    redis.call('SET', lock, value, 'PX', lease)
    return (is_ours and 'kept ' or 'granted ') .. take_numbers(is('l'))
  end
  hand_over(is('l'))
  who, ends, unmarked = holder()
end

local ends_in = math.max(ends - now, 1)
if is('w') then
  local place = owner .. '|' .. digits(now + ARGV[3]) .. '|' .. ARGV[4]
  local at = is('a') and find_place(owner)
  if at then
    redis.call('LSET', line, at, place)
  else
    at = redis.call('RPUSH', line, place) - 1
  end
  -- Not each time: it costs as much as the rest.
  if at == 0 or is('a') or time[2] % 32 == 0 then
    redis.call('PEXPIRE', line, '600000')
  end
  if unmarked then
    redis.call('SET', lock, '!' .. digits(now + ends_in) .. '|' .. unmarked, 'PX', digits(ends_in + LONGEST_PLACE))
  end
end
return 'busy ' .. digits(ends_in)
