// The untyped part of select_set.
#include <coir/select_set.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

select_set::select_set() noexcept = default;
select_set::select_set(select_set&& other) noexcept = default;
select_set& select_set::operator=(select_set&& other) noexcept = default;
select_set::~select_set() = default;

std::size_t select_set::add(std::unique_ptr<detail::set_case> added) {
  set_.push_back(std::move(added));
  return set_.size() - 1;
}

std::size_t select_set::take_now() {
  detail::decide(detail::operation::select, this);
  const std::size_t n = set_.size();
  cases_.clear();
  cases_.resize(n);
  order_.resize(n);
  for (std::size_t i = 0; i < n; ++i) set_[i]->prepare(cases_[i]);
  return detail::select_seeming_ready(cases_.data(), n);
}

std::size_t select_set::wait() {
  std::size_t fired = take_now();
  if (fired == size()) fired = detail::select_one(cases_.data(), size(), order_.data());
  if (detail::explorable && cases_[fired].what == detail::select_case::kind::otherwise)
    detail::decide_after_poll(detail::operation::select, this);
  set_[fired]->finish();
  return fired;
}

bool select_set::awaiter::await_ready() {
  fired_ = set_.take_now();
  return fired_ != set_.size();
}

bool select_set::awaiter::suspend(std::coroutine_handle<> where) noexcept {
  waiting_.emplace(set_.cases_.data(), static_cast<std::uint32_t>(set_.size()), set_.order_.data());
  return waiting_->suspend(where);
}

std::size_t select_set::awaiter::await_resume() {
  if (waiting_) fired_ = waiting_->resume();
  set_.set_[fired_]->finish();
  return fired_;
}

}  // namespace coir
