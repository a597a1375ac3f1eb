// One step of a random program and what came of it. Direct operations, try and timed forms, select and select_set are
// all the same thing here, a choice among transfers with an optional way out, so that the model is written once and
// every spelling of an operation is held to the same rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace coir_fuzz {

struct transfer {
  bool is_send = false;
  unsigned channel = 0;
  std::uint64_t number = 0;  ///< of the token sent
};

enum class time_limit {
  none,
  past,  ///< zero or negative: over at once
  soon,  ///< short: over before anybody else takes a step
  far,   ///< hours: never over
};

enum class spelling {
  direct,     ///< ch.send(), ch.try_recv(), ...; one transfer, no stop token
  statement,  ///< select(...); at most two transfers and one way out
  set,        ///< select_set
};

struct operation {
  enum class action { transfers, close } what = action::transfers;
  std::vector<transfer> cases;  ///< of transfers
  unsigned channel = 0;         ///< of close
  bool otherwise = false;
  time_limit limit = time_limit::none;
  int stop = -1;  ///< which stop source to listen to; -1: none
  spelling how = spelling::direct;
  bool narrow = false;  ///< use send_chan and recv_chan instead of chan
  bool decoys = false;  ///< a set: besides, ways out that can never be taken

  bool ends_soon() const noexcept { return limit == time_limit::soon; }
};

struct outcome {
  enum class end {
    fired,  ///< case `index` took effect (for a close: it closed)
    otherwise,
    timed_out,
    stopped,
    closed,     ///< closed_channel was thrown, or a try form said so for a send
    cancelled,  ///< the fiber was cancelled in the operation
    broken,     ///< something a user must never see; `what` tells
  } how = end::broken;
  std::size_t index = 0;
  std::uint64_t number = 0;  ///< received; 0: none, the channel is closed
  std::string what;

  bool was_cancelled() const noexcept { return how == end::cancelled; }
};

std::string to_string(const operation& op);
std::string to_string(const outcome& o);

}  // namespace coir_fuzz
