// An io_context that plain threads run, from the construction to the end of the test.
#pragma once

#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

namespace asio_test {

class io_threads {
 public:
  explicit io_threads(unsigned n = 1) : work_(context_.get_executor()) {
    for (unsigned i = 0; i < n; ++i) threads_.emplace_back([this] { context_.run(); });
  }
  ~io_threads() {
    work_.reset();
    for (std::thread& t : threads_) t.join();
  }
  io_threads(const io_threads&) = delete;
  io_threads& operator=(const io_threads&) = delete;

  boost::asio::io_context& operator*() noexcept { return context_; }

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

}  // namespace asio_test
