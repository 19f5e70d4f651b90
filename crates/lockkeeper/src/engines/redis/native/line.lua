-- What the slow ways share: the line of a key, and giving the lock to somebody.
--
-- KEYS[1] is "prefix:{bucket}k:key". Its value is "owner|since|info" while nobody waits, and
-- "!ends|owner|since|info" when there is a line: the "!" sends everybody the slow way, and "ends" is
-- when the lease is over, in the server's milliseconds, because the key outlives its lease then.
-- The line is a list of places: "owner|until|lease|channel|ask|info".
local lock = KEYS[1]
local brace = string.find(lock, '}', 1, true)
local base = string.sub(lock, 1, brace)
local line, counter = base .. 'l' .. string.sub(lock, brace + 2), base .. 'n'

local LONGEST_PLACE = 3000 -- ms
local COUNTER_LASTS = 10 * 24 * 3600 * 1000 -- ms
local TURNS = 64 -- fence numbers of one grant

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function digits(number)
  return string.format('%.0f', number)
end

-- The numbers of a grant: above all that were given before, also by a server that is gone, because
-- every counter stays behind four times the microseconds of its server's clock.
local function take_numbers()
  local floor = time[1] * 4000000 + time[2] * 4
  local last = tonumber(redis.call('GET', counter) or '0')
  if last < floor then last = floor end
  redis.call('SET', counter, digits(last + TURNS), 'PX', COUNTER_LASTS)
  return digits(last + 1)
end

local function set_holder(value, lease)
  if redis.call('EXISTS', line) == 1 then
    value = '!' .. digits(now + lease) .. '|' .. value
    lease = lease + LONGEST_PLACE
  end
  redis.call('SET', lock, value, 'PX', digits(lease))
end

-- The parts of a place, if the one who has it is alive.
local function alive(place)
  local owner, until_, lease, channel, ask, info =
    string.match(place, '^(%x+)|(%d+)|(%d+)|([^|]*)|(%d+)|(.*)$')
  if tonumber(until_) > now then
    return owner, tonumber(lease), channel, ask, info
  end
end

-- Who is first in line; the dead before are forgotten.
local function first_in_line()
  while true do
    local place = redis.call('LINDEX', line, 0)
    if not place then return nil end
    local owner = alive(place)
    if owner then return owner end
    redis.call('LPOP', line)
  end
end

-- Where somebody stands, and as what.
local function find_place(owner)
  for i, place in ipairs(redis.call('LRANGE', line, 0, -1)) do
    if string.sub(place, 1, 32) == owner then return i - 1, place end
  end
end

local function leave_line(owner)
  local _, place = find_place(owner)
  if place then redis.call('LREM', line, 1, place) end
end

-- Gives the lock to the first in line for as long as its place lasts, and tells only that one.
local function hand_over()
  while true do
    local place = redis.call('LPOP', line)
    if not place then
      redis.call('DEL', lock)
      return
    end
    local owner, lease, channel, ask, info = alive(place)
    if owner then
      set_holder(owner .. '|' .. digits(time[1] * 1000000 + time[2]) .. '|' .. info, lease)
      redis.call('PUBLISH', channel, owner .. ' ' .. ask .. ' ' .. take_numbers())
      return
    end
  end
end
