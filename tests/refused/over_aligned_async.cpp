#include <coir/async.hpp>

struct alignas(64) line {
  char bytes[64];
};

coir::async<line> f() { co_return line{}; }
