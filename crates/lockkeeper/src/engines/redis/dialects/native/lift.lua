-- Lifts a fence counter to the server's time: four numbers for each microsecond, more than any
-- counter can use up, so it is above all that were given before.
local time = redis.call('TIME')
local floor = time[1] * 4000000 + time[2] * 4
if tonumber(redis.call('GET', KEYS[1]) or '0') < floor then
  redis.call('SET', KEYS[1], string.format('%.0f', floor), 'PX', 10 * 24 * 3600 * 1000)
end
return 1
