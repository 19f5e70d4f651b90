-- The common way to ask for a lock that is not simply free: it has a line, and one who has not asked before means
-- to wait. Answers 0; when the lease is over is not looked at, and whoever asks again will see. Arguments as in
-- what follows.
local value = call('GET', lock)
if not ARGV[4] and value and sub(value, 1, 1) == '!' then
  local time = call('TIME')
  local n_places = call('RPUSH', line, ARGV[1] .. time[1] .. ARGV[2])
  -- Not each time: it costs as much as the rest.
  if n_places == 1 or time[2] % 32 == 0 then
    call('PEXPIRE', line, '600000')
  end
  return 0
end
