-- Asks for a lock that is not simply free.
-- KEYS: lock, line, counter. ARGV: a place up to the millisecond until which it lasts; the rest of it; "ttl|since";
-- and if anything is out of the ordinary, letters: "t" if it only tries, "b" if it barges, "a" if it asks again,
-- "u" if the fence counter may not have been lifted.
-- Answers "granted" and the last of its fences, or "kept" if it was ours already; or "busy" and in how many
-- milliseconds the lease is over, or 0 if that is not known; or "strange".
local LONGEST_PLACE = 3000 -- ms
local letters = ARGV[4] or ''
local owner = sub(ARGV[1], 1, 32)

local function digits(number)
  return string.format('%d', number)
end

local function is(letter)
  return string.find(letters, letter, 1, true)
end

-- Who holds the lock, for how long, and the value if not everybody knows that there is a line.
local function holder()
  if not value then return nil end
  if sub(value, 1, 1) == '!' then
    return sub(value, 2, 33), call('PTTL', lock) - LONGEST_PLACE
  end
  return sub(value, 1, 32), call('PTTL', lock), value
end

local who, ends_in, unmarked = holder()
if who and (#who ~= 32 or unmarked and sub(unmarked, 33, 33) ~= '|') then return 'strange' end
local is_ours, is_free = who == owner and ends_in > 0, not who or ends_in <= 0

if is_ours or is_free then
  local first = first_in_line()
  if is_ours or not first or first == owner or is('b') then
    if is('a') then leave_line(owner) end
    local lease, since = string.match(ARGV[3], '(%d+)|(%d+)')
    local mine = owner .. '|' .. since .. '|' .. sub(ARGV[2], 33)
    if first then
      mine, lease = '!' .. mine, digits(lease + LONGEST_PLACE)
    end
    call('SET', lock, mine, 'PX', lease)
    return (is_ours and 'kept ' or 'granted ') .. digits(take_numbers(counter, time, not is('u')))
  end
  hand_over(lock, line, counter, time, now, not is('u'))
  value = call('GET', lock)
  who, ends_in, unmarked = holder()
end

ends_in = math.max(ends_in, 1)
if not is('t') then
  local at = is('a') and find_place(owner)
  if at then
    call('LSET', line, at, place)
  else
    call('RPUSH', line, place)
  end
  call('PEXPIRE', line, '600000')
  if unmarked then
    call('SET', lock, '!' .. unmarked, 'PX', digits(ends_in + LONGEST_PLACE))
  end
end
return 'busy ' .. digits(ends_in)
