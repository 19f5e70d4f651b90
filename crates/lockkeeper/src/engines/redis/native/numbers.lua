-- What the slow ways share: numbers, and giving the lock to somebody. Functions are told what they need: every
-- variable of others that they use costs as much as a command.

-- The last of the 64 numbers of a grant: above all that were given before, also by a server that is gone,
-- because every counter stays behind four times the microseconds of its server's clock. One that is small
-- was not there.
local function take_numbers(counter, time, is_lifted)
  local last = redis.call('INCRBY', counter, '64')
  if not is_lifted or last < 1e15 then
    last = math.max(last, time[1] * 4000000 + time[2] * 4 + 64)
    redis.call('SET', counter, string.format('%d', last), 'PX', '864000000')
  end
  return last
end

-- Gives the lock to the first in line who is alive, for as long as its place lasts, and tells only that one.
-- Answers 2, or 1 if nobody was there.
local function hand_over(lock, line, counter, time, now, is_lifted)
  local call, sub = redis.call, string.sub
  while true do
    local place = call('LPOP', line)
    if not place then
      call('DEL', lock)
      return 1
    end
    if sub(place, 39, 51) - now > 0 then
      call('SET', lock, '!' .. place .. time[1], 'PX', sub(place, 52, 55))
      local last = take_numbers(counter, time, is_lifted)
      call('PUBLISH', sub(place, 56, 83), string.format('%s %d', sub(place, 1, 38), last))
      return 2
    end
  end
end
