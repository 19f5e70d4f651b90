-- Asks for a lock that is not simply free.
-- KEYS: lock, line, counter. ARGV: a place without its end; the ttl; and if anything is out of the ordinary, letters:
-- "t" if it only tries, "b" if it barges, "a" if it asks again, "u" if the fence counter may not have been lifted.
-- Answers "granted" and the last of its fences, or "kept" if it was ours already; or "busy" and in how many
-- milliseconds the lease is over; or "strange".
local letters, place, answer = ARGV[3] or ''
local owner, value = sub(ARGV[1], 2, 33), call('GET', lock)

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
local is_ours, is_free, is_lifted = who == owner and ends_in > 0, not who or ends_in <= 0, not is('u')
local first = (is_ours or is_free) and first_in_line()

if is_ours or is_free and (not first or first == owner or is('b')) then
  if is('a') then
    local _, place = find_place(owner)
    if place then call('LREM', line, 1, place) end
  end
  local lease, mine = ARGV[2], owner .. '|' .. sub(ARGV[1], 72, 81) .. '|' .. sub(ARGV[1], 82)
  if first then
    mine, lease = '!' .. mine, digits(lease + LONGEST_PLACE)
  end
  call('SET', lock, mine, 'PX', lease)
  answer = is_ours and 'kept ' or 'granted '
elseif not is('t') then
  local ends = (starts_anew and 900000 or clock) - LONGEST_PLACE
  local mine, at = struct.pack('<c0I4', ARGV[1], ends), is('a') and find_place(owner)
  if at then
    call('LSET', line, at, mine)
  else
    call('RPUSH', line, mine)
  end
  if starts_anew then call('PEXPIRE', line, '900000') end
  if unmarked then
    call('SET', lock, '!' .. unmarked, 'PX', digits(ends_in + LONGEST_PLACE))
  end
end
if not answer then
  if not first then return 'busy ' .. digits(math.max(ends_in, 1)) end
  -- The lock is free, and another is first.
