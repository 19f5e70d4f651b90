-- Asks for a lock that is not simply free.
-- KEYS: lock, line, counter. ARGV: owner, info, ttl, place, channel, ask, patience, order, since.
-- Answers "granted" and the first fence, or "kept" if it was ours already; or "busy" and in how many
-- milliseconds the lease is over; or "strange".
local owner, info = ARGV[1], ARGV[2]
local ttl, lease = tonumber(ARGV[3]), tonumber(ARGV[4])
local waits, barges = ARGV[7] == 'waits', ARGV[8] == 'barging'
local is_first_ask = ARGV[6] == '1'

local function granted(how)
  if not is_first_ask then leave_line(owner) end
  set_holder(owner .. '|' .. ARGV[9] .. '|' .. info, ttl)
  return { how, take_numbers() }
end

local function stand_in_line()
  local place = table.concat({ owner, digits(now + lease), ARGV[4], ARGV[5], ARGV[6], info }, '|')
  local at = not is_first_ask and find_place(owner)
  if at then
    redis.call('LSET', line, at, place)
  else
    at = redis.call('RPUSH', line, place) - 1
  end
  -- Not each time: it costs as much as the rest.
  if at == 0 or not is_first_ask or time[2] % 32 == 0 then
    redis.call('PEXPIRE', line, 600000)
  end
end

-- Who holds the lock, until when, and whether everybody knows that there is a line.
local function holder()
  local value = redis.call('GET', lock)
  if not value then return nil end
  if string.sub(value, 1, 1) == '!' then
    return string.sub(value, 16, 47), tonumber(string.sub(value, 2, 14))
  end
  return string.sub(value, 1, 32), now + redis.call('PTTL', lock), value
end

local who, ends, unmarked = holder()
if who and (#who ~= 32 or not ends) then return { 'strange' } end
if who == owner and ends > now then return granted('kept') end
if not who or ends <= now then
  local first = first_in_line()
  if barges or not first or first == owner then return granted('granted') end
  hand_over()
  who, ends, unmarked = holder()
end
if waits then
  stand_in_line()
  if unmarked then
    local lasts = math.max(ends - now, 1)
    redis.call('SET', lock, '!' .. digits(now + lasts) .. '|' .. unmarked, 'PX', digits(lasts + LONGEST_PLACE))
  end
end
return { 'busy', math.max(ends - now, 1) }
