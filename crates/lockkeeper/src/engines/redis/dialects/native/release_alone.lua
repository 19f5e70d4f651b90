-- Nothing but the lock is touched: in a cluster, a script must not touch what it was not told the names of. ARGV: "even"
-- as a second one if a lock with a line is to be let go without a look at the line: whoever stands there asks again.
-- Answers -1 for a lock that is ours and may have a line.
if owner_at ~= 2 then return 0 end
if ARGV[2] then return redis.call('DEL', KEYS[1]) end
return -1
