// GCC 12 would destroy the closure twice.
#include <memory>

#include <coir/async.hpp>
#include <coir/select.hpp>

coir::async<void> use(coir::chan<int> ch, std::shared_ptr<int> sum) {
  co_await coir::async_select(coir::on_recv(ch, [sum](std::optional<int> v) { *sum += v.value_or(0); }));
}
