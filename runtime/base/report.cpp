#include "base/report.hpp"

#include <cxxabi.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <typeinfo>

#include <coir/detail/abi.hpp>
#include <coir/error.hpp>

namespace coir::inline COIR_ABI::detail {

fatal_report::fatal_report() : std::ostream(nullptr) {
  rdbuf(&buffer_);
  *this << "coir: fatal: ";
}

void fatal_report::end() noexcept {
  *this << std::endl;
  std::abort();
}

int fatal_report::buffer::sync() {
  std::fwrite(text_, 1, static_cast<std::size_t>(pptr() - text_), stderr);
  std::fflush(stderr);
  setp(text_, text_ + sizeof text_);
  return 0;
}

fatal_report::buffer::int_type fatal_report::buffer::overflow(int_type c) {
  sync();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

std::string without_abi(std::string name) {
  constexpr std::string_view abi = COIR_ABI_TEXT "::";
  for (std::size_t at = 0; (at = name.find(abi, at)) != std::string::npos;) name.erase(at, abi.size());
  return name;
}

std::string describe(const std::exception_ptr& error) {
  const auto type_name = [] {
    const std::type_info* type = abi::__cxa_current_exception_type();
    if (type == nullptr) return std::string("unknown exception");
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name{abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                      std::free};
    return without_abi(status == 0 ? name.get() : type->name());
  };
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return type_name() + ": " + e.what();
  } catch (const cancelled& e) {
    return type_name() + ": " + e.what();
  } catch (...) {
    return type_name();
  }
}

}  // namespace coir::detail
