-- The last of the 64 numbers of a grant: above all that were given before, also by a server that is gone,
-- because every counter stays behind four times the microseconds of its server's clock. One that is small
-- was not there.
local last = call('INCRBY', counter, '64')
if not is_lifted or last < 1e15 then
  local time = call('TIME')
  last = math.max(last, time[1] * 4000000 + time[2] * 4 + 64)
  call('SET', counter, string.format('%d', last), 'PX', '864000000')
end
