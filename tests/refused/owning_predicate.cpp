// GCC 12 destroys twice what is made within a co_await expression.
#include <mutex>
#include <string>

#include <coir/condition_variable.hpp>
#include <coir/mutex.hpp>

coir::async<void> f(coir::condition_variable& c, std::unique_lock<coir::mutex>& lock, std::string text) {
  co_await c.async_wait(lock, [text] { return text.empty(); });
}
