// The cases of select() that wait for a stream, a socket or a listener: on_readable, on_writable, on_accept.
#pragma once

#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include <coir/detail/io_owner.hpp>
#include <coir/detail/select_case.hpp>
#include <coir/select.hpp>

namespace coir::detail {

/// Whether an operation that way would not block now: it might also fail at once.
bool is_ready_now(int fd, io_way way) noexcept;

/// Comes when the kernel says so, or when it is asked; also when the descriptor is closed. Then it stays.
class readiness_waiter final : public event_waiter {
 public:
  readiness_waiter(const io_owner& of, io_way way) noexcept : handle_(io_owner_access::handle(of)), way_(way) {}
  readiness_waiter(const readiness_waiter&) = delete;

  bool possible() const noexcept override { return true; }
  bool come() const noexcept override;
  void disarm() noexcept override;

 private:
  void listen() override;

  const io_handle& handle_;
  io_way way_;
  std::optional<io_handle::use> used_;  // while it is armed
};

template <class Listener, class Handler>
class accept_case : case_base {
 public:
  using handler_type = Handler;
  using stream = decltype(std::declval<Listener&>().accept());
  static constexpr auto what = select_case::kind::event;

  template <class H>
  accept_case(Listener& listener, H&& handler)
      : listener_(listener), event_(listener, io_way::read), handler_(std::forward<H>(handler)) {}

  bool ready() const noexcept { return event_.come(); }
  bool try_now() { return confirm(); }
  void describe(select_case& c) noexcept {
    c.what = what;
    c.slot = static_cast<event_waiter*>(&event_);
  }
  bool confirm() {
    accepted_ = listener_.try_accept();
    return accepted_.has_value();
  }
  void finish() { handler_(std::move(*accepted_)); }

 private:
  Listener& listener_;
  readiness_waiter event_;
  Handler handler_;
  std::optional<stream> accepted_;
};

}  // namespace coir::detail

namespace coir {

/// Taken when a read would not block: there is something, or the end, or an error, or it is closed on this side. The
/// handler takes nothing. Deadlines of the stream do not count. Throws std::system_error if the kernel cannot tell.
template <class Handler = detail::no_handler>
[[nodiscard]] auto on_readable(const detail::io_owner& s, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::event_case<detail::readiness_waiter, Handler>(std::forward<Handler>(handler), s, detail::io_way::read);
}

/// The same for a write.
template <class Handler = detail::no_handler>
[[nodiscard]] auto on_writable(const detail::io_owner& s, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::event_case<detail::readiness_waiter, Handler>(std::forward<Handler>(handler), s,
                                                               detail::io_way::write);
}

/// Accepts a connection, which the handler takes; if another fiber was faster the case is not ready any more. Throws as
/// accept() does. Of relative timeouts beside it the time counts anew then. Not in async_select() and select_set.
template <class Listener, class Handler>
requires requires(Listener& listener) { listener.try_accept(); }
[[nodiscard]] auto on_accept(Listener& listener, Handler&& handler) {
  return detail::accept_case<Listener, Handler>(listener, std::forward<Handler>(handler));
}

}  // namespace coir
