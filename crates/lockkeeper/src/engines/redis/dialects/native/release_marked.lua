-- Leaves the line, or lets go of a lock that may have one.
if owner_at ~= 2 then
  for _, place in ipairs(call('LRANGE', line, 0, -1)) do
    if sub(place, 2, 33) == ARGV[1] then call('LREM', line, 1, place) end
  end
  return 0
end
local clock, answer, place = call('PTTL', line), 2
