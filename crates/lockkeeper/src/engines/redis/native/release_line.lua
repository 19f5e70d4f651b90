if value and sub(value, 16, 47) == ARGV[1] and sub(value, 1, 1) == '!' then
  return hand_over(is_lifted)
end
