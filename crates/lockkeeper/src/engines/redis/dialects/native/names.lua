-- What stands where. The lock is "prefix:{bucket}k:key"; its line and its fence counter are named only by those who
-- expect to need them.
--
-- Its value is "owner|since|info" while nobody waits. When there may be a line, the value begins with "!", which
-- sends everybody the slow way, and the key outlives its lease by the longest place: it is "!owner|since|info",
-- or, after a hand-over, the place of the one who has it.
--
-- The line is a list of places. A place is, letter by letter: "!" 1, owner 32, number of the ask 6, how long the key
-- lasts if it is handed over 4 (3000 more than the hold), channel 28, the second of the ask 10, info; and at its end, in
-- four bytes, what the clock shows when it ends. Nothing is searched in it: that costs more than the commands do,
-- and so do arguments, answers that are lists, numbers that are printed and texts that are put together. There are
-- few of them here.
--
-- The clock is how many milliseconds are left until the line expires; to ask for the time costs three times as much.
-- A line lasts for 900000 of them, and is given as many again when 110000 are left; then the ends of all places are
-- moved along.
local call, sub, lock, line, counter = redis.call, string.sub, KEYS[1], KEYS[2], KEYS[3]
if not line then
  local brace = string.find(lock, '}', 1, true)
  local base = sub(lock, 1, brace)
  line, counter = base .. 'l' .. sub(lock, brace + 2), base .. 'n'
end
