if value and sub(value, 2, 33) == ARGV[1] then
  return hand_over(is_lifted)
end
