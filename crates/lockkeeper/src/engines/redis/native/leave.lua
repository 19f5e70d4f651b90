leave_line(ARGV[1])
return 0
