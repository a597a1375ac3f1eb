// The keys of a Redis server and their values, for any number of fibers and threads at once.
//
// The keys are spread over shards, each with a mutex of its own, so that fibers on several processors seldom meet. A
// key whose time is over is gone at once: each operation looks at the time; sweep() gives the memory back.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include <coir/mutex.hpp>
#include <coir/simulate.hpp>

namespace example::redis {

class store {
 public:
  using clock = coir::clock;
  static constexpr clock::time_point never = clock::time_point::max();

  enum class condition { always, if_absent, if_present };

  /// Calls f(value) if there is one. Under the key's lock: f must not use the store.
  template <class F>
  bool get(std::string_view key, F f) {
    shard& s = of(key);
    const std::scoped_lock lock(s.lock);
    const entry* found = s.find(key);
    if (found != nullptr) f(std::string_view(found->value));
    return found != nullptr;
  }

  /// Whether it was set, that is, the condition was met.
  bool set(std::string_view key, std::string_view value, clock::time_point expires, condition when) {
    shard& s = of(key);
    const std::scoped_lock lock(s.lock);
    entry* found = s.find(key);
    if (when == (found != nullptr ? condition::if_absent : condition::if_present)) return false;
    if (found == nullptr) found = &s.entries.try_emplace(std::string(key)).first->second;
    found->value = value;
    found->expires = expires;
    return true;
  }

  bool contains(std::string_view key) {
    return get(key, [](std::string_view) {});
  }

  bool erase(std::string_view key) {
    shard& s = of(key);
    const std::scoped_lock lock(s.lock);
    if (s.find(key) == nullptr) return false;
    s.entries.erase(s.entries.find(key));
    return true;
  }

  /// Adds one to the number that the value is; of an absent key it is 0. Nothing: it is no number, or the largest.
  std::optional<std::int64_t> increment(std::string_view key) {
    shard& s = of(key);
    const std::scoped_lock lock(s.lock);
    std::int64_t n = 0;
    entry* found = s.find(key);
    if (found != nullptr) {
      const char* const end = found->value.data() + found->value.size();
      const auto [stop, error] = std::from_chars(found->value.data(), end, n);
      if (error != std::errc() || stop != end || n == INT64_MAX) return std::nullopt;
    } else {
      found = &s.entries.try_emplace(std::string(key)).first->second;
    }
    found->value = std::to_string(++n);
    return n;
  }

  /// Whether the key is there.
  bool expire(std::string_view key, clock::time_point when) {
    shard& s = of(key);
    const std::scoped_lock lock(s.lock);
    entry* found = s.find(key);
    if (found != nullptr) found->expires = when;
    return found != nullptr;
  }

  /// When it is over, or `never`; nothing: there is no such key.
  std::optional<clock::time_point> expiry(std::string_view key) {
    shard& s = of(key);
    const std::scoped_lock lock(s.lock);
    const entry* found = s.find(key);
    return found != nullptr ? std::optional(found->expires) : std::nullopt;
  }

  /// Calls f(key) for each, shard after shard. Under their locks: f must not use the store.
  template <class F>
  void for_each_key(F f) {
    const clock::time_point now = clock::now();
    for (shard& s : shards_) {
      const std::scoped_lock lock(s.lock);
      for (const auto& [key, value] : s.entries)
        if (value.expires > now) f(std::string_view(key));
    }
  }

  /// Frees what is over.
  void sweep() {
    const clock::time_point now = clock::now();
    for (shard& s : shards_) {
      const std::scoped_lock lock(s.lock);
      std::erase_if(s.entries, [&](const auto& item) { return item.second.expires <= now; });
    }
  }

 private:
  struct entry {
    std::string value;
    clock::time_point expires = never;
  };

  /// Looks a std::string up by a std::string_view.
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  struct alignas(64) shard {
    /// Null: not there, or over.
    entry* find(std::string_view key) {
      const auto found = entries.find(key);
      if (found == entries.end()) return nullptr;
      if (found->second.expires != never && found->second.expires <= clock::now()) {
        entries.erase(found);
        return nullptr;
      }
      return &found->second;
    }

    coir::mutex lock;  // innermost
    std::unordered_map<std::string, entry, hash, std::equal_to<>> entries;
  };

  shard& of(std::string_view key) noexcept {
    // From the high bits: the shard's map goes by the low ones.
    return shards_[hash()(key) >> (sizeof(std::size_t) * 8 - 6)];
  }

  std::array<shard, 64> shards_;
};

}  // namespace example::redis
