// How the simulated network starts a carrier. See network.hpp.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/source_location.hpp>

#include "network.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

// No decision: the system call is one.
template <class F>
void network::start_carrier(std::string name, F f) {
  using named = named_function<F>;
  named function(std::make_unique<std::string>(std::move(name)), std::move(f));
  current_worker()->home->start(make_record<go_record<named>>(std::move(function), source_location::current()));
}

}  // namespace coir::detail
