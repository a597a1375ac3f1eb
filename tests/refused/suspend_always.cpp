// The standard's awaitables.
#include <coir/async.hpp>

coir::async<void> f() { co_await std::suspend_always(); }
