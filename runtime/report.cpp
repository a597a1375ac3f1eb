#include "report.hpp"

#include <cxxabi.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "fiber.hpp"

namespace coir::detail {

void fatal_message(const std::string& message) noexcept {
  std::fprintf(stderr, "coir: fatal: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

std::string describe(const fiber& f) {
  std::ostringstream out;
  out << "fiber " << f.id;
  if (f.name) out << " \"" << f.name.get() << '"';
  out << ", spawned at " << f.spawn_file << ':' << f.line;
  return out.str();
}

std::string describe(const std::exception_ptr& error) {
  const auto type_name = [] {
    const std::type_info* type = abi::__cxa_current_exception_type();
    if (type == nullptr) return std::string("unknown exception");
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name{abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                      std::free};
    return std::string(status == 0 ? name.get() : type->name());
  };
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return type_name() + ": " + e.what();
  } catch (...) {
    return type_name();
  }
}

}  // namespace coir::detail
