-- Who stands where in the line.

-- Who is first in line; the dead before are forgotten.
local function first_in_line()
  while true do
    local place = redis.call('LINDEX', line, 0)
    if not place then return nil end
    if tonumber(string.match(place, '|(%d+)')) > now then return sub(place, 1, 32) end
    redis.call('LPOP', line)
  end
end

-- Where somebody stands, and as what.
local function find_place(owner)
  for i, place in ipairs(redis.call('LRANGE', line, 0, -1)) do
    if sub(place, 1, 32) == owner then return i - 1, place end
  end
end

local function leave_line(owner)
  local _, place = find_place(owner)
  if place then redis.call('LREM', line, 1, place) end
end
