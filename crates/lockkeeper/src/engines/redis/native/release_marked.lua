if value and sub(value, 2, 33) == ARGV[1] then
  return hand_over(lock, line, counter, time, now, is_lifted)
end
