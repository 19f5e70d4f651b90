-- Takes 32 numbers for a grant and answers the last of them. KEYS: counter. For servers of which another may come to be
-- asked: every grant is lifted to the server's clock, four numbers for each microsecond, so it is above all that any of
-- them gave before, whoever asked there, and whatever this one has not seen.
local time, before = redis.call('TIME'), redis.call('GET', KEYS[1])
local floor = time[1] * 4000000 + time[2] * 4
if before then
  return redis.call('INCRBY', KEYS[1], math.max(floor - before, 0) + 32)
end
redis.call('SET', KEYS[1], string.format('%d', floor + 32), 'PX', '864000000')
return floor + 32
