// Feeds a text to a reader of a protocol in pieces, and collects what it reads. The readers of the examples all work in
// the same way: room(), arrived(n), next().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fuzz_check.hpp"

namespace coir_fuzz {

/// Calls take(reader), which takes all that has come, after each piece. `sizes`: a byte for each piece, again and
/// again; empty: pieces as large as there is room. Stops when the reader has no use for more.
template <class Reader, class Take, class Ended>
void feed_in_pieces(Reader& reader, std::string_view text, std::string_view sizes, Take take, Ended ended) {
  for (std::size_t i = 0; !text.empty() && !ended(reader); ++i) {
    const auto room = reader.room();
    check(!room.empty(), "there is no room");
    std::size_t n = std::min(room.size(), text.size());
    if (!sizes.empty()) n = std::min<std::size_t>(n, static_cast<std::uint8_t>(sizes[i % sizes.size()]) + 1U);
    std::memcpy(room.data(), text.data(), n);
    reader.arrived(n);
    text.remove_prefix(n);
    take(reader);
  }
}

}  // namespace coir_fuzz
