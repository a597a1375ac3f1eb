#include <coir/net_error.hpp>

#include <coir/detail/abi.hpp>

#include <string>

namespace coir::inline COIR_ABI::net {

namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "coir.net"; }

  std::string message(int code) const override {
    switch (static_cast<errc>(code)) {
      case errc::closed:
        return "closed on this side";
      case errc::end_of_stream:
        return "the peer has ended too early";
    }
    return "unknown error";
  }

  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<errc>(code)) {
      case errc::closed:
        return std::errc::bad_file_descriptor;
      case errc::end_of_stream:
        return std::errc::connection_aborted;
    }
    return {code, *this};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category one;
  return one;
}

std::error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

}  // namespace coir::net
