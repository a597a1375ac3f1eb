// An async can be run once: it is moved into who awaits it.
#include <coir/async.hpp>

coir::async<int> f(coir::async<int> given) {
  co_await given;
  co_return 0;
}
