#include "observe/stack_walk.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <coir/detail/abi.hpp>

#if defined(COIR_HAVE_LIBUNWIND)
#include <libunwind.h>
#endif

#include "base/context_switch.hpp"
#include "base/report.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view p) { return name.substr(0, p.size()) == p; });
}

std::string hexadecimal(std::uintptr_t x) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(x));
  return text;
}

/// "_ZN4coir2v16detail": of a name in coir's inline namespace.
std::string mangled(const char* prefix, const char* inside) {
  constexpr std::string_view abi = COIR_ABI_TEXT;
  return prefix + ("4coir" + std::to_string(abi.size())) + std::string(abi) + inside;
}

}  // namespace

#if defined(COIR_HAVE_LIBUNWIND)

namespace {

constexpr std::size_t most_calls = 100;

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free};
  return status == 0 ? text.get() : name;
}

/// Replaces the function that starts a fiber, `coir::detail::task_record<R, F>::enter(...)`, by the user's F, which is
/// often inlined into it.
std::string as_user_sees(std::string function) {
  const std::string_view end = ">::enter(coir::detail::start_record*)";
  const std::string_view text = function;
  if (text.size() < end.size() || text.substr(text.size() - end.size()) != end) return function;
  std::size_t begin = text.find("_record<");
  if (begin == text.npos) return function;
  begin += std::strlen("_record<");
  int depth = 0;
  for (std::size_t i = begin; i < text.size() - end.size(); ++i) {
    if (std::strchr("<({", text[i]) != nullptr) ++depth;
    if (std::strchr(">)}", text[i]) != nullptr) --depth;
    if (depth == 0 && text.substr(i, 2) == ", ") begin = i + 2;
  }
  return function.substr(begin, text.size() - end.size() - begin);
}

// Unseen by AddressSanitizer: a copy that is not of one moment may lead anywhere in a file's data.
using file_word [[gnu::may_alias]] = std::uint64_t;
#if defined(COIR_ASAN)
__attribute__((no_sanitize("address", "undefined")))  // Clang knows it by this spelling alone
#endif
__attribute__((noinline)) std::uint64_t
word_at(std::uintptr_t address) noexcept {
  file_word word;
  std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
  return word;
}

void unused_entry(arrival) noexcept { std::abort(); }

/// What jump_fcontext() leaves on a stack: x87 and SSE control words, a spare word, r12 to r15, rbx, rbp, where to go
/// on. Boost before 1.77 has no spare word: a fresh context tells, since it has its function where rbx belongs.
std::size_t spare_words() {
  alignas(16) static char stack[1024];
  static const auto* fresh = static_cast<void* const*>(make_context(stack + sizeof stack, sizeof stack, &unused_entry));
  return fresh[6] == reinterpret_cast<void*>(&unused_entry) ? 1 : 0;
}

}  // namespace

/// The process as libunwind is to see it: the stack that is being unwound is the copy.
struct unwinder::space {
  unw_accessors_t local;
  unw_addr_space_t all;
  const stack_copy* stack = nullptr;
  std::uintptr_t registers[17] = {};
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> files;  // what may be read besides
  std::size_t spare = spare_words();

  space() : local(*unw_get_accessors(unw_local_addr_space)) {
    unw_accessors_t accessors = local;
    accessors.access_mem = &read_memory;
    accessors.access_reg = &read_register;
    accessors.access_fpreg = [](unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) { return -UNW_EBADREG; };
    all = unw_create_addr_space(&accessors, 0);
    if (all == nullptr) throw std::bad_alloc();
    unw_set_caching_policy(all, UNW_CACHE_GLOBAL);
    ::dl_iterate_phdr(&note_file, this);
  }
  ~space() { unw_destroy_addr_space(all); }
  space(const space&) = delete;
  space& operator=(const space&) = delete;

  static int note_file(dl_phdr_info* info, std::size_t, void* self) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_R) == 0) continue;
      const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      static_cast<space*>(self)->files.emplace_back(begin, begin + part.p_memsz);
    }
    return 0;
  }

  static int read_memory(unw_addr_space_t, unw_word_t address, unw_word_t* value, int write, void* arg) {
    const auto& self = *static_cast<const space*>(arg);
    if (write != 0) return -UNW_EINVAL;
    const auto within = [&](std::uintptr_t begin, std::uintptr_t end) {
      return address >= begin && address < end && end - address >= sizeof *value;
    };
    if (within(self.stack->address, self.stack->end())) {
      const char* copy = reinterpret_cast<const char*>(self.stack->words.data());
      std::memcpy(value, copy + (address - self.stack->address), sizeof *value);
      return 0;
    }
    for (const auto& [begin, end] : self.files) {
      if (!within(begin, end)) continue;
      *value = word_at(address);
      return 0;
    }
    return -UNW_EINVAL;
  }

  static int read_register(unw_addr_space_t, unw_regnum_t which, unw_word_t* value, int write, void* arg) {
    const auto& self = *static_cast<const space*>(arg);
    if (write != 0 || which < 0 || which > UNW_X86_64_RIP) return -UNW_EBADREG;
    *value = self.registers[which];
    return 0;
  }

  void start(const stack_copy& s) {
    stack = &s;
    const std::uint64_t* saved = s.words.data() + 1 + spare;
    for (const int which : {UNW_X86_64_R12, UNW_X86_64_R13, UNW_X86_64_R14, UNW_X86_64_R15, UNW_X86_64_RBX,
                            UNW_X86_64_RBP, UNW_X86_64_RIP})
      registers[which] = *saved++;
    registers[UNW_X86_64_RSP] = s.address + (8 + spare) * sizeof(std::uint64_t);
  }
};

unwinder::unwinder() : space_(std::make_unique<space>()) {}

bool unwinder::available() noexcept { return true; }

call_stack unwinder::unwind(const stack_copy& stack) {
  call_stack calls;
  if (stack.words.size() < 16) return calls;
  space_->start(stack);
  unw_cursor_t cursor;
  if (unw_init_remote(&cursor, space_->all, space_.get()) != 0) return calls;
  int more = 1;
  while (more > 0 && calls.addresses.size() < most_calls) {
    unw_word_t address = 0;
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0) return calls;
    if (address == 0) more = 0;
    if (more == 0) break;
    calls.addresses.push_back(address);
    more = unw_step(&cursor);
  }
  calls.whole = more == 0;
  return calls;
}

const std::pair<std::string, std::string>& unwinder::look_up(std::uintptr_t address) {
  const auto known = names_.find(address);
  if (known != names_.end()) return known->second;
  std::string symbol;
  std::string text;
  char name[1024];
  unw_word_t offset = 0;
  // A return address lies behind its call, perhaps in another function already. And what goes on at a function's
  // first instruction has not been called.
  const int found = space_->local.get_proc_name(unw_local_addr_space, address - 1, name, sizeof name, &offset, nullptr);
  if (found == 0 || found == -UNW_ENOMEM) {
    symbol = name;
    text = as_user_sees(without_abi(demangled(name))) + '+' + hexadecimal(offset + 1);
  } else {
    text = hexadecimal(address);
  }
  Dl_info file;
  if (::dladdr(reinterpret_cast<void*>(address - 1), &file) != 0 && file.dli_fname != nullptr) {
    const char* slash = std::strrchr(file.dli_fname, '/');
    text += std::string(" [") + (slash != nullptr ? slash + 1 : file.dli_fname) + '+' +
            hexadecimal(address - reinterpret_cast<std::uintptr_t>(file.dli_fbase)) + ']';
  }
  return names_.emplace(address, std::pair(std::move(symbol), std::move(text))).first->second;
}

#else

struct unwinder::space {};
unwinder::unwinder() = default;
bool unwinder::available() noexcept { return false; }
call_stack unwinder::unwind(const stack_copy&) { return {}; }
const std::pair<std::string, std::string>& unwinder::look_up(std::uintptr_t address) {
  return names_.emplace(address, std::pair(std::string(), hexadecimal(address))).first->second;
}

#endif

unwinder::~unwinder() = default;

const std::string& unwinder::describe(std::uintptr_t address) { return look_up(address).second; }

void unwinder::trim(std::vector<std::uintptr_t>& addresses) {
  const std::string internal = mangled("_ZN", "6detail");
  const std::string internal_const = mangled("_ZNK", "6detail");
  const std::string of_scheduler = internal + "9scheduler";
  const auto of_ours = [&](std::uintptr_t a) {
    const std::string& symbol = look_up(a).first;
    // The user's function may have been inlined into the function that starts a fiber.
    return starts_with_any(symbol, {internal, internal_const, "coir_jump_context", "jump_fcontext"}) &&
           symbol.find("_recordI") == std::string::npos;
  };
  const auto user = std::find_if_not(addresses.begin(), addresses.end(), of_ours);
  const auto below = std::find_if(user, addresses.end(), [&](std::uintptr_t a) {
    return starts_with_any(look_up(a).first, {of_scheduler, "coir_stack_", "make_fcontext"});
  });
  addresses.erase(below, addresses.end());
  std::erase_if(addresses, of_ours);
}

}  // namespace coir::detail
