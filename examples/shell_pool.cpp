// Runs the commands of a list, some at a time: `shell_pool [-n AT_ONCE] [-t SECONDS] [FILE]`. Each line of the file, or
// of the standard input, is a command for the shell. One that takes longer than the deadline is killed.
//
// What the commands write is printed in the order of the list, each as soon as it is that one's turn; then how it has
// ended, unless by 0. The program's own exit code is 1 if one of them failed.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <coir/coir.hpp>
#include <coir/io.hpp>

namespace {

using std::chrono::milliseconds;

struct settings {
  std::size_t at_once = 4;
  milliseconds deadline = std::chrono::minutes(1);
  std::string file;  // empty: the standard input
};

struct outcome {
  std::string output;
  std::string failure;  // empty: none
};

/// Kills the command, and all that it has started, if the scope is left before it has ended.
class killer {
 public:
  explicit killer(const coir::process& leader) : group_(leader.id()) {}
  ~killer() {
    if (group_ != 0) ::kill(-group_, SIGKILL);
  }
  killer(const killer&) = delete;
  void dismiss() noexcept { group_ = 0; }

 private:
  ::pid_t group_;
};

/// What the command writes, and how it ends.
outcome run_command(const std::string& command) {
  coir::process_options streams;
  streams.in = coir::standard_stream::null;
  streams.err = coir::standard_stream::to_out;
  coir::process shell({"setsid", "sh", "-c", command}, streams);  // in a process group of its own
  killer kills(shell);
  outcome result;
  std::byte part[16 * 1024];
  while (const std::size_t n = shell.out().read_some(part))
    result.output.append(reinterpret_cast<const char*>(part), n);
  const int code = shell.wait();
  kills.dismiss();
  if (code != 0) result.failure = "exit code " + std::to_string(code);
  return result;
}

outcome run_in_time(const std::string& command, milliseconds deadline) {
  try {
    return coir::timeout(deadline, [&] { return run_command(command); });
  } catch (const coir::timed_out&) {
    return {.output = {}, .failure = "took too long"};
  } catch (const std::system_error& e) {  // no process or no descriptor is left
    return {.output = {}, .failure = e.what()};
  }
}

std::vector<std::string> read_lines(std::istream& from) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(from, line);)
    if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

/// Whether all have succeeded.
bool run_all(const std::vector<std::string>& commands, const settings& s) {
  coir::semaphore places(static_cast<coir::semaphore::count_type>(s.at_once));
  std::vector<coir::task<outcome>> outcomes;  // joined in order, whichever ends first
  for (const std::string& command : commands)
    outcomes.push_back(coir::spawn([&] {
      places.acquire();
      const struct release {
        coir::semaphore& of;
        ~release() { of.release(); }
      } at_end{places};
      return run_in_time(command, s.deadline);
    }));

  bool all = true;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const outcome o = outcomes[i].get();
    std::fwrite(o.output.data(), 1, o.output.size(), stdout);
    std::fflush(stdout);
    if (o.failure.empty()) continue;
    all = false;
    std::fprintf(stderr, "%s: %s\n", commands[i].c_str(), o.failure.c_str());
  }
  return all;
}

/// Nothing: they make no sense.
std::optional<settings> parse(int argc, char** argv) {
  settings s;
  int i = 1;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    const std::string_view option = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (option == "-n" && value >= 1 && value <= 1000)
      s.at_once = static_cast<std::size_t>(value);
    else if (option == "-t" && value > 0 && value < 1e6)
      s.deadline = milliseconds(static_cast<long>(value * 1000));
    else
      return std::nullopt;
  }
  if (i < argc && argv[i][0] != '-') s.file = argv[i++];
  return i == argc ? std::optional(s) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<settings> s = parse(argc, argv);
  if (!s) {
    std::fprintf(stderr, "usage: %s [-n AT_ONCE] [-t SECONDS] [FILE]\n", argv[0]);
    return 2;
  }
  std::ifstream file(s->file);
  if (!s->file.empty() && !file) {
    std::fprintf(stderr, "%s: cannot be read\n", s->file.c_str());
    return 2;
  }
  const std::vector<std::string> commands = read_lines(s->file.empty() ? std::cin : file);
  return coir::run([&] { return run_all(commands, *s) ? 0 : 1; });
}
