// The cases of select() that wait for a stream, a socket or a listener: on_readable, on_writable, on_accept.
//
// A case is queued in the descriptor as a reader or writer is. A wake-up says only that something has happened, so
// select() asks the kernel before it takes the case (confirm()), and waits again if another fiber was faster.
#pragma once

#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/io_owner.hpp>
#include <coir/detail/select_case.hpp>
#include <coir/select.hpp>

namespace coir::inline COIR_ABI::detail {

/// The event that a descriptor has become ready, or was closed.
class readiness_waiter final : public event_waiter {
 public:
  readiness_waiter(const io_owner& of, io_way way) noexcept : handle_(io_owner_access::handle(of)), way_(way) {}
  readiness_waiter(const readiness_waiter&) = delete;

  bool possible() const noexcept override { return true; }
  bool come() const noexcept override { return claim_.has_come() || holds(); }

  /// Asks the kernel whether the descriptor is ready now.
  bool holds() const noexcept;

  void disarm() noexcept override;

 private:
  void listen() override;

  const io_handle& handle_;
  io_way way_;
  std::optional<io_handle::use> used_;  // set while armed
};

template <class Handler>
class readiness_case : case_base {
 public:
  using handler_type = Handler;
  static constexpr auto what = select_case::kind::event;
  static constexpr bool may_come_early = true;  // so that async_select(), which does not confirm, may have it

  template <class H>
  readiness_case(const io_owner& of, io_way way, H&& handler) : event_(of, way), handler_(std::forward<H>(handler)) {}

  bool ready() const noexcept { return event_.come(); }
  bool try_now() const noexcept { return true; }
  bool confirm() const noexcept { return event_.holds(); }
  void describe(select_case& c) noexcept {
    c.what = what;
    c.slot = static_cast<event_waiter*>(&event_);
  }
  void finish() { handler_(); }

 private:
  readiness_waiter event_;
  Handler handler_;
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

namespace coir::inline COIR_ABI {

/// Taken when a read would not block: bytes have arrived, or the stream has ended, has an error, or is closed on this
/// side. If another fiber reads them first, the case is not ready any more (in async_select() it may be taken although
/// it is not). The handler takes nothing. Deadlines of the stream have no effect. Throws std::system_error if the
/// kernel cannot watch the descriptor.
template <class Handler = detail::no_handler>
[[nodiscard]] auto on_readable(const detail::io_owner& s, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::readiness_case<Handler>(s, detail::io_way::read, std::forward<Handler>(handler));
}

/// Taken when a write would not block; otherwise as on_readable().
template <class Handler = detail::no_handler>
[[nodiscard]] auto on_writable(const detail::io_owner& s, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::readiness_case<Handler>(s, detail::io_way::write, std::forward<Handler>(handler));
}

/// Accepts a connection and passes it to the handler. If another fiber accepts it first, the case is not ready any
/// more. Throws as accept() does. Cannot be used in async_select() and select_set.
template <class Listener, class Handler>
  requires requires(Listener& listener) { listener.try_accept(); }
[[nodiscard]] auto on_accept(Listener& listener, Handler&& handler) {
  return detail::accept_case<Listener, Handler>(listener, std::forward<Handler>(handler));
}

}  // namespace coir
