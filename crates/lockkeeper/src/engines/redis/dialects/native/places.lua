-- Who stands where in the line.

-- A line that is nearly over is given new time. Everybody in it has as much left as before: by the clock that was set
-- forward, the dead would count as alive for minutes, and each of them would be given the lock.
if starts_anew and clock > -2 then
  for i, place in ipairs(call('LRANGE', line, 0, -1)) do
    local ends = 900000 - clock + struct.unpack('<I4', place, #place - 3)
    call('LSET', line, i - 1, struct.pack('<c0I4', sub(place, 1, -5), ends))
  end
  call('PEXPIRE', line, '900000')
  clock, starts_anew = 900000, false
end

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
