// What the tests of all that starts fibers and joins them share.
#pragma once

#include <chrono>
#include <stdexcept>

#include "../runtime/counted.hpp"
#include "coir_test.hpp"

namespace sync_test {

using coir_test::expect_throw_message;
using coir_test::scaled;
using coir_test::until;
using coir_test::until_blocked;
using runtime_test::counted;
using namespace std::chrono_literals;

struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace sync_test
