// A program for gdb to look into: some fibers wait, one computes; then it stops itself.
#include <csignal>

#include <coir/coir.hpp>

extern "C" [[gnu::noinline]] int gdb_test_waits_here(const coir::chan<int>& ch) {
  const std::optional<int> got = ch.recv();
  asm volatile("" ::: "memory");
  return got.value_or(0);
}

extern "C" [[gnu::noinline]] void gdb_test_stops_here() {
  std::raise(SIGTRAP);
  asm volatile("" ::: "memory");
}

int main() {
  coir::options o;
  o.processors = 2;
  coir::run(o, [] {
    coir::this_fiber::set_name("stops");
    const auto ch = coir::make_chan<int>();
    auto reader = coir::spawn([ch] {
      coir::this_fiber::set_name("reader");
      return gdb_test_waits_here(ch);
    });
    auto sized = coir::spawn(coir::spawn_options{.name = "sized", .stack_size = 128 * 1024},
                             [ch] { return gdb_test_waits_here(ch); });
    while (reader.status() != coir::task_status::blocked || sized.status() != coir::task_status::blocked) coir::yield();
    gdb_test_stops_here();
    ch.close();
    reader.get();
    sized.get();
  });
}
