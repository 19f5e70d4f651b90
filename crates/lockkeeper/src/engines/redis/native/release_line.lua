if value and string.sub(value, 16, 47) == ARGV[1] and string.sub(value, 1, 1) == '!' then
  hand_over()
  return 2
end
leave_line(ARGV[1])
return 0
