-- Which other dialect of ours a text at a key is of, if it shows: behind the 32 digits of an owner stands what
-- `native/names.lua` says, or a round of Redlock. Others write what they like, and most of it is plain.
local function dialect_of(value)
  local mark = string.match(value, '^!?')
  local owner, rest = string.sub(value, #mark + 1, #mark + 32), string.sub(value, #mark + 33)
  if #owner < 32 or string.find(owner, '%X') then return nil end
  if string.find(rest, '^|%d+|%d+|') then return 'native' end
  if mark == '!' then return string.find(rest, '^%d%d%d%d%d%d%d%d%d%dlk:') and 'native' end
  return string.find(rest, '^~%d+$') and 'redlock'
end
