// GCC 12 would destroy the closure twice.
#include <functional>
#include <memory>

#include <coir/async.hpp>
#include <coir/select.hpp>

coir::async<void> use(coir::chan<std::function<void()>> ch, std::shared_ptr<int> sum) {
  co_await coir::async_select(coir::on_send(ch, [sum] { ++*sum; }));
}
