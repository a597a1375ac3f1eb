// The cases of an async_select end with the expression in which it is written.
#include <coir/async.hpp>
#include <coir/select.hpp>

coir::async<void> use(coir::chan<int> ch) {
  auto later = coir::async_select(coir::on_recv(ch));
  co_await later;
}
