-- Leaves the line, or lets go of a lock that may have one.
if not value or sub(value, 2, 33) ~= ARGV[1] then
  for _, place in ipairs(call('LRANGE', line, 0, -1)) do
    if sub(place, 1, 32) == ARGV[1] then call('LREM', line, 1, place) end
  end
  return 0
end
local clock, second, answer = call('PTTL', line), ARGV[2] or call('TIME')[1], 2
