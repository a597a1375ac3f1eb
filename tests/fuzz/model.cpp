// The rules of channels and select, one case after the other.
#include "model.hpp"

#include <algorithm>

namespace coir_fuzz {

using end = outcome::end;

namespace {

std::string about(std::size_t f, const std::string& what) { return "fiber " + std::to_string(f) + ": " + what; }

}  // namespace

model::model(const std::vector<std::optional<std::size_t>>& capacities, std::size_t fibers, std::size_t stops,
             bool newest_first)
    : channels_(capacities.size()), fibers_(fibers), stopped_(stops, false), newest_first_(newest_first) {
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    channels_[i].nil = !capacities[i];
    channels_[i].capacity = capacities[i].value_or(0);
  }
}

bool model::ready(const transfer& t) const {
  const channel& c = channels_[t.channel];
  if (c.nil) return false;
  if (c.closed) return true;  // a send too: it is ready to throw
  return t.is_send ? c.buffer.size() < c.capacity || !c.receivers.empty() : !c.buffer.empty() || !c.senders.empty();
}

void model::enqueue(std::size_t f, const operation& op) {
  fibers_[f].waits = true;
  fibers_[f].op = op;
  for (const transfer& t : op.cases) {
    channel& c = channels_[t.channel];
    if (!c.nil) (t.is_send ? c.senders : c.receivers).push_back(f);
  }
}

void model::dequeue(std::size_t f) {
  fibers_[f].waits = false;
  for (channel& c : channels_) {
    std::erase(c.senders, f);
    std::erase(c.receivers, f);
  }
}

std::string model::nobody_but(const std::vector<std::size_t>& allowed, const outcomes& finished) const {
  for (const auto& [f, o] : finished)
    if (std::find(allowed.begin(), allowed.end(), f) == allowed.end())
      return about(f, "finished (" + to_string(o) + ") though nothing happened to it");
  return {};
}

std::string model::after_operation(std::size_t f, const operation& op, const outcomes& finished) {
  for (const auto& [g, o] : finished)
    if (o.how == end::broken) return about(g, o.what);
  if (op.what == operation::action::close) return after_close(f, op, finished);

  const bool can_proceed = std::any_of(op.cases.begin(), op.cases.end(), [&](const transfer& t) { return ready(t); });
  const bool stop_now = op.stop >= 0 && stopped_[static_cast<std::size_t>(op.stop)];
  const bool over = op.limit == time_limit::past || op.limit == time_limit::soon;
  const auto mine = finished.find(f);

  if (!can_proceed && !stop_now && !op.otherwise && !over) {
    if (mine != finished.end()) return about(f, "should block, but: " + to_string(mine->second));
    enqueue(f, op);
    return nobody_but({}, finished);
  }
  if (mine == finished.end()) return about(f, "blocked though it could proceed");
  const outcome& o = mine->second;
  switch (o.how) {
    case end::fired:
    case end::closed:
      return fire(f, op, o, finished);
    case end::otherwise:
      if (!op.otherwise || can_proceed || stop_now) return about(f, "took otherwise though a case was ready");
      break;
    case end::timed_out:
      // With a ready case a select whose time is over may take either; a direct operation never gives up a ready
      // channel.
      if (!over || (can_proceed && op.how == spelling::direct))
        return about(f, "timed out though a case was ready, or without a limit");
      break;
    case end::stopped:
      if (!stop_now) return about(f, "stopped without a request");
      break;
    case end::cancelled:
    case end::broken:
      return about(f, "ended as " + to_string(o));
  }
  return nobody_but({f}, finished);
}

std::string model::fire(std::size_t f, const operation& op, const outcome& o, const outcomes& finished) {
  if (o.how == end::closed) {
    const bool send_to_closed = std::any_of(
        op.cases.begin(), op.cases.end(), [&](const transfer& t) { return t.is_send && channels_[t.channel].closed; });
    return send_to_closed ? nobody_but({f}, finished) : about(f, "closed_channel without a send to a closed channel");
  }
  if (o.index >= op.cases.size()) return about(f, "fired a case that it does not have");
  const transfer& t = op.cases[o.index];
  channel& c = channels_[t.channel];
  if (!ready(t)) return about(f, "fired case " + std::to_string(o.index) + ", which was not ready");

  std::size_t partner = f;
  std::uint64_t number = 0;
  if (t.is_send) {
    if (c.closed) return about(f, "sent on a closed channel");
    if (c.receivers.empty()) {
      c.buffer.push_back(t.number);
    } else {
      if (std::string wrong = wake_partner(t.channel, false, finished, partner, number); !wrong.empty()) return wrong;
      if (number != t.number)
        return about(partner, "received " + std::to_string(number) + " instead of " + std::to_string(t.number));
    }
  } else if (!c.buffer.empty()) {
    number = c.buffer.front();
    c.buffer.pop_front();
    if (o.number != number)
      return about(f, "received " + std::to_string(o.number) + " instead of " + std::to_string(number));
    if (!c.senders.empty()) {
      if (std::string wrong = wake_partner(t.channel, true, finished, partner, number); !wrong.empty()) return wrong;
      c.buffer.push_back(number);
    }
  } else if (!c.senders.empty()) {
    if (std::string wrong = wake_partner(t.channel, true, finished, partner, number); !wrong.empty()) return wrong;
    if (o.number != number)
      return about(f, "received " + std::to_string(o.number) + " instead of " + std::to_string(number));
  } else if (o.number != 0) {
    return about(f, "received " + std::to_string(o.number) + " from a closed and drained channel");
  }
  return nobody_but({f, partner}, finished);
}

std::string model::wake_partner(std::size_t index, bool sender, const outcomes& finished, std::size_t& partner,
                                std::uint64_t& number) {
  const channel& c = channels_[index];
  const std::vector<std::size_t>& queue = sender ? c.senders : c.receivers;
  partner = newest_first_ ? queue.back() : queue.front();
  const auto found = finished.find(partner);
  if (found == finished.end()) return about(partner, "was first in the queue but was not served");
  const outcome& o = found->second;
  const operation& op = fibers_[partner].op;
  if (o.how != end::fired || o.index >= op.cases.size())
    return about(partner, "should have been served, but: " + to_string(o));
  // Several cases of one select may stand in this queue; any of them may be the one.
  const transfer& t = op.cases[o.index];
  if (t.channel != index || t.is_send != sender)
    return about(partner, "was served through case " + std::to_string(o.index) + ", which waits elsewhere");
  number = sender ? t.number : o.number;
  dequeue(partner);
  return {};
}

std::string model::after_close(std::size_t f, const operation& op, const outcomes& finished) {
  channel& c = channels_[op.channel];
  const auto mine = finished.find(f);
  if (mine == finished.end()) return about(f, "blocked in close");
  if (c.nil || c.closed)
    return mine->second.how == end::closed ? nobody_but({f}, finished) : about(f, "close of a closed or nil channel");
  if (mine->second.how != end::fired) return about(f, "close failed: " + to_string(mine->second));
  c.closed = true;

  std::vector<std::size_t> woken = c.senders;
  woken.insert(woken.end(), c.receivers.begin(), c.receivers.end());
  for (std::size_t g : woken) {
    const auto found = finished.find(g);
    if (found == finished.end()) return about(g, "was not woken by the close");
    const outcome& o = found->second;
    const std::vector<transfer>& cases = fibers_[g].op.cases;
    const bool sends_here = std::any_of(cases.begin(), cases.end(),
                                        [&](const transfer& t) { return t.is_send && t.channel == op.channel; });
    const bool received_end = o.how == end::fired && o.index < cases.size() && !cases[o.index].is_send &&
                              cases[o.index].channel == op.channel && o.number == 0;
    if (!received_end && !(o.how == end::closed && sends_here))
      return about(g, "was woken by a close with: " + to_string(o));
  }
  for (std::size_t g : woken) dequeue(g);
  woken.push_back(f);
  return nobody_but(woken, finished);
}

std::string model::after_stop(std::size_t source, const outcomes& finished) {
  stopped_[source] = true;
  std::vector<std::size_t> woken;
  for (std::size_t g = 0; g < fibers_.size(); ++g) {
    if (!fibers_[g].waits || fibers_[g].op.stop != static_cast<int>(source)) continue;
    const auto found = finished.find(g);
    if (found == finished.end() || found->second.how != end::stopped)
      return about(g, "was not stopped by its stop token");
    woken.push_back(g);
  }
  for (std::size_t g : woken) dequeue(g);
  return nobody_but(woken, finished);
}

std::string model::after_cancel(std::size_t f, const outcomes& finished) {
  const auto found = finished.find(f);
  if (found == finished.end() || found->second.how != end::cancelled) return about(f, "was not cancelled");
  dequeue(f);
  return nobody_but({f}, finished);
}

long model::tokens() const {
  long count = 0;
  for (const channel& c : channels_) count += static_cast<long>(c.buffer.size());
  for (const fiber& f : fibers_)
    if (f.waits)
      count += std::count_if(f.op.cases.begin(), f.op.cases.end(), [](const transfer& t) { return t.is_send; });
  return count;
}

}  // namespace coir_fuzz
