// The three spellings of an operation: direct calls, select statements, select_set; each by fibers and by coroutines.
#include "execute.hpp"

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <coir/error.hpp>
#include <coir/select.hpp>

namespace coir_fuzz {
namespace {

using end = outcome::end;
using namespace std::chrono_literals;

std::chrono::nanoseconds duration_of(time_limit limit) {
  return limit == time_limit::past ? -5ns : limit == time_limit::soon ? std::chrono::nanoseconds(50us) : 10h;
}

outcome broken(const std::string& what) { return {end::broken, 0, 0, what}; }
outcome received(token& t) { return {end::fired, 0, t.number(), {}}; }
outcome received_end() { return {end::fired, 0, 0, {}}; }

// ---- direct --------------------------------------------------------------------------------------------------------

template <class Channel>
outcome send_directly(const operation& op, const Channel& ch) {
  token value{op.cases[0].number};
  if (op.limit == time_limit::none && !op.otherwise) {
    ch.send(std::move(value));
    return {end::fired, 0, 0, {}};
  }
  outcome result;
  if (op.otherwise) {
    switch (ch.try_send(std::move(value))) {
      case coir::send_status::done:
        result.how = end::fired;
        break;
      case coir::send_status::would_block:
        result.how = end::otherwise;
        break;
      case coir::send_status::closed:
        result.how = end::closed;
        break;
      default:
        return broken("try_send timed out");
    }
  } else {
    try {
      result.how = ch.send_for(std::move(value), duration_of(op.limit)) ? end::fired : end::timed_out;
    } catch (const coir::closed_channel&) {
      result.how = end::closed;
    } catch (const coir::cancelled&) {
      result.how = end::cancelled;
    }
  }
  const bool moved = value.number() == 0;
  if (moved != (result.how == end::fired))
    return broken("a send moved from its value, or failed to, in the wrong case");
  return result;
}

template <class Channel>
outcome receive_directly(const operation& op, const Channel& ch) {
  if (op.limit == time_limit::none && !op.otherwise) {
    std::optional<token> value = ch.recv();
    return value ? received(*value) : received_end();
  }
  token value;
  const coir::recv_status status = op.otherwise ? ch.try_recv(value) : ch.recv_for(value, duration_of(op.limit));
  switch (status) {
    case coir::recv_status::done:
      return received(value);
    case coir::recv_status::closed:
      return received_end();
    case coir::recv_status::would_block:
      return op.otherwise ? outcome{end::otherwise, 0, 0, {}} : broken("recv_for would block");
    case coir::recv_status::timed_out:
      return op.otherwise ? broken("try_recv timed out") : outcome{end::timed_out, 0, 0, {}};
  }
  return broken("no such status");
}

outcome do_directly(const operation& op, const world& w) {
  const transfer& t = op.cases[0];
  const coir::chan<token>& ch = w.channels[t.channel];
  if (t.is_send) return op.narrow ? send_directly(op, coir::send_chan<token>(ch)) : send_directly(op, ch);
  return op.narrow ? receive_directly(op, coir::recv_chan<token>(ch)) : receive_directly(op, ch);
}

// ---- select statement and set --------------------------------------------------------------------------------------

/// What the handlers saw of a select.
struct witness {
  int handlers = 0;
  std::size_t index = 0;
  std::optional<token> value;
  std::vector<token> to_send;  // one for each case; a receive's has no number

  explicit witness(const operation& op) {
    for (const transfer& t : op.cases) to_send.push_back(t.is_send ? token{t.number} : token{});
  }

  auto on(std::size_t i) {
    return [this, i] { ++handlers, index = i; };
  }
  auto on_value(std::size_t i) {
    return [this, i](std::optional<token> v) {
      ++handlers, index = i;
      value = std::move(v);
    };
  }
};

// The ways out follow the transfers: otherwise, timeout, stop, in this order.
outcome judge(const operation& op, witness& seen, std::size_t fired, bool values_stay) {
  if (seen.handlers != 1) return broken(std::to_string(seen.handlers) + " handlers ran");
  if (seen.index != fired) return broken("select returned " + std::to_string(fired) + " but another handler ran");
  if (values_stay)
    for (std::size_t i = 0; i < op.cases.size(); ++i)
      if (op.cases[i].is_send && (seen.to_send[i].number() == 0) != (i == fired))
        return broken("a select moved from the value of a case not taken");
  if (fired < op.cases.size()) {
    if (op.cases[fired].is_send) return {end::fired, fired, 0, {}};
    return {end::fired, fired, seen.value ? seen.value->number() : 0, {}};
  }
  std::size_t way_out = fired - op.cases.size();
  if (op.otherwise && way_out-- == 0) return {end::otherwise, 0, 0, {}};
  if (op.limit != time_limit::none && way_out-- == 0) return {end::timed_out, 0, 0, {}};
  if (op.stop >= 0 && way_out-- == 0) return {end::stopped, 0, 0, {}};
  return broken("select returned " + std::to_string(fired) + ", which is no case");
}

template <class... Cases>
std::size_t with_way_out(const operation& op, const world& w, witness& seen, Cases&&... cases) {
  constexpr std::size_t at = sizeof...(Cases);
  if (op.otherwise) return coir::select(std::forward<Cases>(cases)..., coir::otherwise(seen.on(at)));
  if (op.limit != time_limit::none)
    return coir::select(std::forward<Cases>(cases)..., coir::on_timeout(duration_of(op.limit), seen.on(at)));
  if (op.stop >= 0) {
    const std::stop_token token = w.stops[static_cast<std::size_t>(op.stop)].get_token();
    return coir::select(std::forward<Cases>(cases)..., coir::on_stop(token, seen.on(at)));
  }
  return coir::select(std::forward<Cases>(cases)...);
}

template <class... Cases>
std::size_t select_statement(const operation& op, const world& w, witness& seen, Cases&&... cases) {
  constexpr std::size_t at = sizeof...(Cases);
  if constexpr (at < 2) {
    if (at < op.cases.size()) {
      const transfer& t = op.cases[at];
      const coir::chan<token>& ch = w.channels[t.channel];
      if (t.is_send)
        return select_statement(op, w, seen, std::forward<Cases>(cases)...,
                                coir::on_send(ch, std::move(seen.to_send[at]), seen.on(at)));
      return select_statement(op, w, seen, std::forward<Cases>(cases)..., coir::on_recv(ch, seen.on_value(at)));
    }
  }
  return with_way_out(op, w, seen, std::forward<Cases>(cases)...);
}

void fill(coir::select_set& set, const operation& op, const world& w, witness& seen) {
  for (std::size_t i = 0; i < op.cases.size(); ++i) {
    const coir::chan<token>& ch = w.channels[op.cases[i].channel];
    if (op.cases[i].is_send)
      set.send(ch, std::move(seen.to_send[i]), seen.on(i));
    else
      set.recv(ch, seen.on_value(i));
  }
  std::size_t at = op.cases.size();
  if (op.otherwise) set.otherwise(seen.on(at++));
  if (op.limit != time_limit::none) set.timeout(duration_of(op.limit), seen.on(at++));
  if (op.stop >= 0) set.stop(w.stops[static_cast<std::size_t>(op.stop)].get_token(), seen.on(at++));
  if (op.decoys) {
    if (op.otherwise) set.otherwise(seen.on(at++));
    set.timeout(20h, seen.on(at++));
    set.stop(std::stop_token(), seen.on(at++));
    set.recv(coir::chan<token>(), seen.on_value(at++));
    set.timeout(std::chrono::hours::max(), seen.on(at++));
  }
}

std::size_t wait_on_set(const operation& op, const world& w, witness& seen) {
  coir::select_set set;
  fill(set, op, w, seen);
  return set.wait();
}

// ---- by coroutines -------------------------------------------------------------------------------------------------
//
// Written so that no aggregate is made inside of a co_await expression (docs/async.md).

coir::async<outcome> do_directly_async(const operation& op, const world& w) {
  outcome result;
  result.how = end::fired;
  const transfer& t = op.cases[0];
  const coir::chan<token>& ch = w.channels[t.channel];
  if (t.is_send) {
    token value{t.number};
    co_await coir::send_chan<token>(ch).async_send(std::move(value));
  } else {
    std::optional<token> value = co_await ch.async_recv();
    if (value) result.number = value->number();
  }
  co_return result;
}

/// The cases live in the frames of the callers, which wait.
template <class... Cases>
coir::async<std::size_t> async_statement(const operation& op, const world& w, witness& seen, Cases&... cases) {
  constexpr std::size_t at = sizeof...(Cases);
  if constexpr (at < 2) {
    if (at < op.cases.size()) {
      const transfer& t = op.cases[at];
      const coir::chan<token>& ch = w.channels[t.channel];
      if (t.is_send) {
        auto here = coir::on_send(ch, std::move(seen.to_send[at]), seen.on(at));
        co_return co_await async_statement(op, w, seen, cases..., here);
      }
      auto here = coir::on_recv(ch, seen.on_value(at));
      co_return co_await async_statement(op, w, seen, cases..., here);
    }
  }
  if (op.otherwise) co_return co_await coir::async_select(cases..., coir::otherwise(seen.on(at)));
  if (op.limit != time_limit::none)
    co_return co_await coir::async_select(cases..., coir::on_timeout(duration_of(op.limit), seen.on(at)));
  if (op.stop >= 0) {
    const std::stop_token token = w.stops[static_cast<std::size_t>(op.stop)].get_token();
    co_return co_await coir::async_select(cases..., coir::on_stop(token, seen.on(at)));
  }
  co_return co_await coir::async_select(cases...);
}

coir::async<std::size_t> wait_on_set_async(const operation& op, const world& w, witness& seen) {
  coir::select_set set;
  fill(set, op, w, seen);
  co_return co_await set.async_wait();
}

}  // namespace

outcome execute(const operation& op, const world& w) {
  try {
    if (op.what == operation::action::close) {
      w.channels[op.channel].close();
      return {end::fired, 0, 0, {}};
    }
    if (op.how == spelling::direct) return do_directly(op, w);
    witness seen{op};
    const bool statement = op.how == spelling::statement;
    const std::size_t fired = statement ? select_statement(op, w, seen) : wait_on_set(op, w, seen);
    return judge(op, seen, fired, statement);
  } catch (const coir::closed_channel&) {
    return {end::closed, 0, 0, {}};
  } catch (const coir::cancelled&) {
    return {end::cancelled, 0, 0, {}};
  } catch (const std::exception& e) {
    return broken(std::string("an exception: ") + e.what());
  }
}

coir::async<outcome> execute_async(const operation& op, const world& w) {
  const bool blocks = !op.otherwise && op.limit == time_limit::none;
  const bool can_be_awaited = op.what == operation::action::transfers && (op.how != spelling::direct || blocks);
  if (!can_be_awaited) co_return execute(op, w);
  outcome result;
  try {
    if (op.how == spelling::direct) co_return co_await do_directly_async(op, w);
    witness seen{op};
    const bool statement = op.how == spelling::statement;
    std::size_t fired = 0;
    if (statement)
      fired = co_await async_statement(op, w, seen);
    else
      fired = co_await wait_on_set_async(op, w, seen);
    co_return judge(op, seen, fired, statement);
  } catch (const coir::closed_channel&) {
    result.how = end::closed;
  } catch (const coir::cancelled&) {
    result.how = end::cancelled;
  } catch (const std::exception& e) {
    result = broken(std::string("an exception: ") + e.what());
  }
  co_return result;
}

}  // namespace coir_fuzz
