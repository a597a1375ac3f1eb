// A handler that is a coroutine: nobody would run what it returns.
#include <coir/async.hpp>
#include <coir/select.hpp>

void use(coir::chan<int> ch) {
  coir::select(coir::on_recv(ch, [](std::optional<int>) -> coir::async<void> { co_return; }));
}
