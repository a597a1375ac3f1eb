// Does one operation of a random program on real channels, in the spelling that it asks for, and says what came of it.
// Besides it checks what only the caller can see: that the value of a send that did not happen is still there, that the
// handler that ran belongs to the index that was returned, and that it ran once.
#pragma once

#include <stop_token>
#include <vector>

#include <coir/async.hpp>
#include <coir/chan.hpp>

#include "operation.hpp"
#include "token.hpp"

namespace coir_fuzz {

struct world {
  std::vector<coir::chan<token>> channels;
  std::vector<std::stop_source> stops;
};

/// Never throws: an exception is an outcome.
outcome execute(const operation& op, const world& w);

/// The same by a coroutine: it awaits what can be awaited, and blocks else. `op` must outlive it.
coir::async<outcome> execute_async(const operation& op, const world& w);

}  // namespace coir_fuzz
