-- Gives the lock to the first in line who is alive, for a short time, and tells only that one. Ends with `answer`, or
-- with 1 if nobody was there. Not a function: that would cost as much as a command.
while true do
  local place = call('LPOP', line)
  if not place then
    call('DEL', lock)
    return 1
  end
  if clock - sub(place, 39, 44) > 0 then
    call('SET', lock, '!' .. place .. second, 'PX', sub(place, 45, 48))
    local last = take_numbers(counter, is_lifted)
    call('PUBLISH', sub(place, 49, 76), string.format('%s %d', sub(place, 1, 38), last))
    return answer
  end
end
