-- Who stands where in the line.

-- Who is first in line; the dead before are forgotten.
local function first_in_line()
  while true do
    local place = call('LINDEX', line, 0)
    if not place then return nil end
    if clock > struct.unpack('<I4', place, #place - 3) then return sub(place, 2, 33) end
    call('LPOP', line)
  end
end

-- Where somebody stands, and as what.
local function find_place(owner)
  for i, place in ipairs(call('LRANGE', line, 0, -1)) do
    if sub(place, 2, 33) == owner then return i - 1, place end
  end
end
