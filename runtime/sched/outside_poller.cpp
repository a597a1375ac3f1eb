#include "sched/outside_poller.hpp"

#include <atomic>
#include <mutex>
#include <system_error>

#include <coir/detail/abi.hpp>

#include "base/immortal.hpp"
#include "sched/registry.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

class service {
 public:
  poller& started() {
    if (running_.load(std::memory_order_acquire)) return poller_;
    const std::lock_guard locked(starting_);
    if (running_.load(std::memory_order_relaxed)) return poller_;
    poller_.start();
    const int error = runtime_threads::start(
        thread_,
        [](void* self) -> void* {
          static_cast<service*>(self)->work();
          return nullptr;
        },
        this);
    if (error != 0) throw std::system_error(error, std::system_category(), "coir: no thread that waits for input");
    thread_.detach();
    running_.store(true, std::memory_order_release);  // pairs with the load above
    return poller_;
  }

 private:
  // Runs to the end of the process. It holds nothing that has to be given back.
  [[noreturn]] void work() noexcept {
    for (poller::batch b;;) {
      poller_.collect(b, no_deadline);
      poller::deliver(b);
    }
  }

  poller poller_{poller::kind::outside};
  std::mutex starting_;
  std::atomic<bool> running_{false};
  native_thread thread_;
};

}  // namespace

poller& outside_poller() { return immortal<service>().started(); }

}  // namespace coir::detail
