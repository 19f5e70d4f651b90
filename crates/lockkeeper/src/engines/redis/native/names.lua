-- What stands where, and what time it is. KEYS[1] is "prefix:{bucket}k:key".
--
-- Its value is "owner|since|info" while nobody waits. When there may be a line, the value begins with "!", which
-- sends everybody the slow way, and the key outlives its lease by the longest place: it is "!owner|since|info",
-- or, after a hand-over, "!" and the place, and the second it happened in.
--
-- The line is a list of places. A place is, letter by letter: owner 32, number of the ask 6, the millisecond until
-- which it lasts 13, how long the key lasts if it is handed over 4 (3000 more than the place does), channel 28,
-- info. Nothing is searched in it: that costs more than the commands do, and so do arguments, answers that are
-- lists and numbers that are printed. There are few of them here.
local call, sub, lock = redis.call, string.sub, KEYS[1]
local brace = string.find(lock, '}', 1, true)
local base = sub(lock, 1, brace)
local line = base .. 'l' .. sub(lock, brace + 2)
local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
