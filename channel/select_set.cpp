// The untyped part of select_set.
#include <coir/select_set.hpp>

namespace coir {

select_set::select_set() noexcept = default;
select_set::select_set(select_set&& other) noexcept = default;
select_set& select_set::operator=(select_set&& other) noexcept = default;
select_set::~select_set() = default;

std::size_t select_set::add(std::unique_ptr<detail::set_case> added) {
  set_.push_back(std::move(added));
  return set_.size() - 1;
}

std::size_t select_set::wait() {
  const std::size_t n = set_.size();
  cases_.clear();
  cases_.resize(n);
  order_.resize(n);
  for (std::size_t i = 0; i < n; ++i) set_[i]->prepare(cases_[i]);
  const std::size_t fired = detail::select_any(cases_.data(), n, order_.data());
  set_[fired]->finish();
  return fired;
}

}  // namespace coir
