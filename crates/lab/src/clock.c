// A wall clock of its own for one program: loaded before the system's library (LD_PRELOAD), it adds
// to the wall clock what stands in the file named by LAB_CLOCK, in microseconds, at that moment.
// Other clocks are left alone: what a program measures its own pauses with goes on as before.
// Only system calls: the first caller may be the allocator, before anything else is ready.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *ahead_us;

__attribute__((constructor)) static void open_clock(void) {
  const char *path = getenv("LAB_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) ahead_us = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int answer = (int)syscall(SYS_clock_gettime, clock, now);
  if (answer == 0 && ahead_us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t us = (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000 + *ahead_us;
    now->tv_sec = us / 1000000;
    now->tv_nsec = us % 1000000 * 1000;
  }
  return answer;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec precise;
  int answer = clock_gettime(CLOCK_REALTIME, &precise);
  if (answer == 0 && now) {
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
  }
  return answer;
}

time_t time(time_t *seconds) {
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return (time_t)-1;
  if (seconds) *seconds = precise.tv_sec;
  return precise.tv_sec;
}
