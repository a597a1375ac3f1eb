// Another library's awaitable: nobody would know who resumes the coroutine.
#include <coir/async.hpp>

struct completion {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<>) const {}
  void await_resume() const {}
};

coir::async<void> f() { co_await completion(); }
