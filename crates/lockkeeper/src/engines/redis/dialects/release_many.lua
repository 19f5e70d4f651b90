-- Unlocks many at once. KEYS: locks. ARGV: owners. How many letters of a value name the owner is said before, as
-- `length`. Answers 1 if all were theirs; or else a list with 1 for each that was and 0 for each that was not, or
-- not simply.
local call, sub = redis.call, string.sub
local values, are_all_theirs = call('MGET', unpack(KEYS)), true
for i, owner in ipairs(ARGV) do
  if not values[i] or sub(values[i], 1, length) ~= owner then
    values[i], are_all_theirs = false, false
  end
end
if are_all_theirs then
  call('DEL', unpack(KEYS))
  return 1
end
for i, value in ipairs(values) do
  values[i] = value and call('DEL', KEYS[i]) or 0
end
return values
