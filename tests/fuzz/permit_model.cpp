#include "permit_model.hpp"

#include <algorithm>
#include <utility>

namespace coir_fuzz {

namespace {

const char* name(permit_outcome::end how) {
  using enum permit_outcome::end;
  switch (how) {
    case yes:
      return "yes";
    case no:
      return "no";
    case timed_out:
      return "timed out";
    case too_many:
      return "std::invalid_argument";
    case not_so_many_out:
      return "std::logic_error";
    case cancelled:
      return "cancelled";
    case broken:
      break;
  }
  return "BROKEN";
}

std::string compare(const std::map<std::size_t, permit_outcome::end>& expected,
                    const permit_model::outcomes& finished) {
  for (const auto& [actor, how] : expected) {
    const auto found = finished.find(actor);
    if (found == finished.end()) return std::to_string(actor) + " is blocked; expected: " + name(how);
    if (found->second.how != how)
      return std::to_string(actor) + " ended with " + to_string(found->second) + "; expected: " + name(how);
  }
  for (const auto& [actor, o] : finished)
    if (!expected.contains(actor)) return std::to_string(actor) + " should block, but ended with " + to_string(o);
  return {};
}

}  // namespace

std::string to_string(const permit_operation& op) {
  using enum permit_operation::action;
  const std::string n = "(" + std::to_string(op.permits);
  switch (op.what) {
    case attempt:
      return "try_acquire" + n + ")";
    case release:
      return "release" + n + ")";
    case is_locked:
      return "locked()";
    case acquire:
      break;
  }
  static constexpr const char* limits[] = {")", ", past)", ", soon)", ", far)"};
  return "acquire" + n + limits[static_cast<std::size_t>(op.until)];
}

std::string to_string(const permit_outcome& o) { return o.what.empty() ? name(o.how) : name(o.how) + (": " + o.what); }

bool permit_model::blocked(std::size_t f) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const waiting& w) { return w.actor == f; });
}

bool permit_model::may_release(std::int64_t n) const {
  // Of a shared_mutex either all are out, to a writer, or some, to readers.
  if (kind_ == permit_kind::shared_mutex) return n == total_ ? free_ == 0 : free_ > 0 && n <= out();
  return n <= out();
}

std::optional<permit_model::end> permit_model::apply(const permit_operation& op) {
  using enum permit_operation::action;
  if (op.what == is_locked) return must_wait(1) ? end::yes : end::no;
  if (op.permits < 0 || (op.permits > total_ && op.what != release)) return end::too_many;
  if (op.what == release) {
    if (!may_release(op.permits)) return end::not_so_many_out;
    free_ += op.permits;
    return end::yes;
  }
  if (!must_wait(op.permits)) {
    free_ -= op.permits;
    return end::yes;
  }
  if (op.what == attempt) return end::no;
  using enum permit_operation::patience;
  if (op.until == none || op.until == little) return end::timed_out;
  return std::nullopt;
}

void permit_model::grant(std::map<std::size_t, end>& expected) {
  while (!queue_.empty()) {
    const waiting next = newest_first_ ? queue_.back() : queue_.front();
    if (next.permits > free_) return;
    free_ -= next.permits;
    expected[next.actor] = end::yes;
    newest_first_ ? queue_.pop_back() : queue_.pop_front();
  }
}

std::string permit_model::after_operation(std::size_t f, const permit_operation& op, const outcomes& finished) {
  std::map<std::size_t, end> expected;
  if (const std::optional<end> how = apply(op))
    expected[f] = *how;
  else
    queue_.push_back({f, op.permits});
  grant(expected);
  return compare(expected, finished);
}

std::string permit_model::after_cancel(std::size_t f, const outcomes& finished) {
  std::map<std::size_t, end> expected{{f, end::cancelled}};
  std::erase_if(queue_, [&](const waiting& w) { return w.actor == f; });
  grant(expected);
  return compare(expected, finished);
}

}  // namespace coir_fuzz
