// Where random programs take their choices from: a seed (endless, the same choices on every machine), or the bytes of a
// fuzzer's input (they end: after the last one every choice is 0 and exhausted() says so).
#pragma once

#include <cstddef>
#include <cstdint>

namespace coir_fuzz {

class entropy {
 public:
  explicit entropy(std::uint64_t seed) noexcept : state_(seed) {}
  entropy(const std::uint8_t* bytes, std::size_t size) noexcept : bytes_(bytes), left_(size), finite_(true) {}

  /// A number in [0, n), n from 1 to 65536.
  unsigned below(unsigned n) noexcept {
    if (!finite_) return static_cast<unsigned>(next() % n);
    unsigned value = byte();
    if (n > 256) value = value << 8 | byte();
    return value % n;
  }

  bool chance(unsigned percent) noexcept { return below(100) < percent; }
  bool exhausted() const noexcept { return finite_ && left_ == 0; }

 private:
  unsigned byte() noexcept {
    if (left_ == 0) return 0;
    --left_;
    return *bytes_++;
  }

  // splitmix64: a counter and a finalizer, good enough for choices and with no bad seeds.
  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t state_ = 0;
  const std::uint8_t* bytes_ = nullptr;
  std::size_t left_ = 0;
  bool finite_ = false;
};

}  // namespace coir_fuzz
