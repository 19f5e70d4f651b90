-- What the slow ways share: numbers, and giving the lock to somebody.
local LONGEST_PLACE = 3000 -- ms
local TURNS = '64' -- fence numbers of one grant

local function digits(number)
  return string.format('%d', number)
end

-- The last of the numbers of a grant: above all that were given before, also by a server that is gone,
-- because every counter stays behind four times the microseconds of its server's clock. One that is small
-- was not there.
local function take_numbers(is_lifted)
  local counter = base .. 'n'
  local last = call('INCRBY', counter, TURNS)
  if not is_lifted or last < 1e15 then
    local time = call('TIME')
    last = math.max(last, time[1] * 4000000 + time[2] * 4 + TURNS)
    call('SET', counter, digits(last), 'PX', '864000000')
  end
  return last
end

local function is_alive(place, second)
  return second - sub(place, 39, 48) - sub(place, 49, 49) <= 0
end

-- Gives the lock to the first in line who is alive, for as long as its place lasts, and tells only that one.
-- Answers 2, or 1 if nobody was there.
local function hand_over(is_lifted)
  while true do
    local place = call('LPOP', line)
    if not place then
      call('DEL', lock)
      return 1
    end
    local second = call('TIME')[1]
    if is_alive(place, second) then
      call('SET', lock, '!' .. place .. second, 'PX', sub(place, 50, 53))
      call('PUBLISH', sub(place, 54, 81), string.format('%s %d', sub(place, 1, 38), take_numbers(is_lifted)))
      return 2
    end
  end
end
