-- What the slow ways share: the line of a key, and giving the lock to somebody.
--
-- KEYS[1] is "prefix:{bucket}k:key". Its value is "owner|since|info" while nobody waits, and
-- "!ends|owner|since|info" when there may be a line: the "!" sends everybody the slow way, and "ends" is
-- when the lease is over, in the server's milliseconds, because the key outlives its lease then.
-- The line is a list of places: "owner|until|lease|channel|ask|info".
--
-- Arguments, answers that are lists and numbers printed as floats cost as much as commands do: there are
-- few of them here.
local lock, sub = KEYS[1], string.sub
local brace = string.find(lock, '}', 1, true)
local base = sub(lock, 1, brace)
local line, counter = base .. 'l' .. sub(lock, brace + 2), base .. 'n'

local LONGEST_PLACE = 3000 -- ms
local TURNS = '64' -- fence numbers of one grant
local SMALLEST = 1e15 -- a counter below this was not there

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function digits(number)
  return string.format('%d', number)
end

-- The first of the numbers of a grant: above all that were given before, also by a server that is gone,
-- because every counter stays behind four times the microseconds of its server's clock.
local function take_numbers(is_lifted)
  local last = redis.call('INCRBY', counter, TURNS)
  if not is_lifted or last < SMALLEST then
    last = math.max(last, time[1] * 4000000 + time[2] * 4 + TURNS)
    redis.call('SET', counter, digits(last), 'PX', '864000000')
  end
  return digits(last - TURNS + 1)
end

-- Gives the lock to the first in line who is alive, for as long as its place lasts, and tells only that one.
-- Answers 2, or 1 if nobody was there.
local function hand_over(is_lifted)
  while true do
    local place = redis.call('LPOP', line)
    if not place then
      redis.call('DEL', lock)
      return 1
    end
    local owner, until_, lease, channel, ask, info =
      string.match(place, '^(%x+)|(%d+)|(%d+)|([^|]*)|(%d+)|(.*)$')
    if tonumber(until_) > now then
      local since = time[1] .. sub('00000' .. time[2], -6)
      redis.call('SET', lock, '!' .. digits(now + lease) .. '|' .. owner .. '|' .. since .. '|' .. info,
        'PX', digits(lease + LONGEST_PLACE))
      redis.call('PUBLISH', channel, owner .. ' ' .. ask .. ' ' .. take_numbers(is_lifted))
      return 2
    end
  end
end
