-- Gives the lock to the first in line who is alive, for a short time. Ends with 1 if nobody is there.
repeat
  place = call('LPOP', line)
  if not place then
    call('DEL', lock)
    return 1
  end
until clock > struct.unpack('<I4', place, #place - 3)
call('SET', lock, place, 'PX', sub(place, 40, 43))
