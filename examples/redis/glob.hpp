// Patterns of Redis: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before what stands for itself. Of any bytes.
#pragma once

#include <algorithm>
#include <string_view>

namespace example::redis {

namespace detail {

/// The text after the `[...]` that `pattern` begins with, and whether c is one of it. Without a `]` it ends with the
/// pattern.
inline bool in_class(std::string_view& pattern, char c) {
  std::size_t i = 1;
  const bool negated = i < pattern.size() && pattern[i] == '^';
  if (negated) ++i;
  bool found = false;
  for (; i < pattern.size() && pattern[i] != ']'; ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    char low = pattern[i], high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') high = pattern[i += 2];
    if (low > high) std::swap(low, high);
    found = found || (low <= c && c <= high);
  }
  pattern.remove_prefix(std::min(i + 1, pattern.size()));
  return found != negated;
}

/// Whether the first element of `pattern`, which is no `*`, stands for c; takes it away.
inline bool matches_one(std::string_view& pattern, char c) {
  if (pattern.front() == '[') return in_class(pattern, c);
  const bool any = pattern.front() == '?';
  if (pattern.front() == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
  const bool same = pattern.front() == c;
  pattern.remove_prefix(1);
  return any || same;
}

}  // namespace detail

/// Whether all of `text` is of the pattern. Takes at most pattern.size() * text.size() steps: only the last `*` can be
/// what has taken too little.
inline bool matches(std::string_view pattern, std::string_view text) {
  std::string_view after_star, retry;
  bool has_star = false;
  while (!text.empty()) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      has_star = true;
      after_star = pattern;
      retry = text;
    } else if (!pattern.empty() && detail::matches_one(pattern, text.front())) {
      text.remove_prefix(1);
    } else if (has_star) {
      retry.remove_prefix(1);  // the star takes one more
      pattern = after_star;
      text = retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*') == pattern.npos;
}

}  // namespace example::redis
