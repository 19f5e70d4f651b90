-- The common way to ask for a lock that is not simply free: it has a line, and one who has not asked before means
-- to wait. Answers 0; when the lease is over is not looked at, and whoever asks again will see. Arguments as in
-- what follows.
local value = call('GET', lock)
local place = ARGV[1] .. string.format('%d', now + sub(ARGV[2], 1, 4) - 3000) .. ARGV[2]
if not ARGV[4] and value and sub(value, 1, 1) == '!' then
  local n_places = call('RPUSH', line, place)
  -- Not each time: it costs as much as the rest.
  if n_places == 1 or now % 32 < 1 then
    call('PEXPIRE', line, '600000')
  end
  return 0
end
