// Counts a server's system calls, without privileges and without slowing it down as a tracer does: linked into a
// server, these definitions go before those of the C library, also for the libraries that it uses. Each counts and
// makes the call itself. What the C library calls from inside itself (a mutex that is contended, memory) is not seen;
// the servers' hot paths have nothing of that kind.
#include "counted_calls.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdlib>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

bench::call_counts nowhere{};

bench::call_counts& mapped() noexcept {
  const char* name = std::getenv(bench::call_counts::file_variable);
  const int fd = name != nullptr ? ::open(name, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return nowhere;
  void* at = ::mmap(nullptr, sizeof(bench::call_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return at != MAP_FAILED ? *static_cast<bench::call_counts*>(at) : nowhere;
}

// Others are not in the way before it is set: nothing is to be counted then.
bench::call_counts* counts = &nowhere;
[[gnu::constructor]] void begin() noexcept { counts = &mapped(); }

void count(std::atomic<std::uint64_t>& of) noexcept { of.fetch_add(1, std::memory_order_relaxed); }

// The system call as the kernel sees it: its result, or errno and -1.
long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
#if defined(__x86_64__)
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result = 0;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long result asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(result) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
#endif
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

long word(const void* p) noexcept { return reinterpret_cast<long>(p); }
long word(std::size_t n) noexcept { return static_cast<long>(n); }

}  // namespace

extern "C" {

ssize_t recv(int fd, void* to, size_t n, int flags) {
  count(counts->reads);
  return call(SYS_recvfrom, fd, word(to), word(n), flags);
}
ssize_t recvmsg(int fd, msghdr* m, int flags) {
  count(counts->reads);
  return call(SYS_recvmsg, fd, word(m), flags);
}
ssize_t read(int fd, void* to, size_t n) {
  count(counts->reads);
  return call(SYS_read, fd, word(to), word(n));
}
ssize_t send(int fd, const void* from, size_t n, int flags) {
  count(counts->writes);
  return call(SYS_sendto, fd, word(from), word(n), flags);
}
ssize_t sendmsg(int fd, const msghdr* m, int flags) {
  count(counts->writes);
  return call(SYS_sendmsg, fd, word(m), flags);
}
ssize_t write(int fd, const void* from, size_t n) {
  count(counts->writes);
  return call(SYS_write, fd, word(from), word(n));
}
ssize_t writev(int fd, const iovec* from, int n) {
  count(counts->writes);
  return call(SYS_writev, fd, word(from), n);
}
int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  count(counts->waits);
  return static_cast<int>(call(SYS_epoll_pwait, fd, word(events), most, timeout, 0, 8));
}
int epoll_pwait2(int fd, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask) {
  count(counts->waits);
  return static_cast<int>(call(SYS_epoll_pwait2, fd, word(events), most, word(timeout), word(mask), 8));
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  count(counts->controls);
  return static_cast<int>(call(SYS_epoll_ctl, epoll, operation, fd, word(event)));
}
long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  long argument[6];
  for (long& a : argument) a = va_arg(list, long);
  va_end(list);
  count(number == SYS_futex ? counts->futexes : counts->others);
  return call(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

}  // extern "C"
