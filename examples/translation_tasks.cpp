// Tasks by hand: numbers are read out in several languages, side by side, a digit at a time. A dictionary takes a while
// to answer, and who waits for it gives way to the others. There is no runtime here, just coroutines and a queue: each
// task is resumed in turn until all have ended, and then has a result.
#include <deque>
#include <exception>
#include <iomanip>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <coir/coroutine.hpp>

namespace {

/// Hands out nothing and takes nothing: a yield gives way. Its result is text.
using job = coir::coroutine<void, void, std::string>;

const std::map<std::string, std::vector<std::string>> dictionaries{
    {"Basque", {"zero", "bat", "bi", "hiru", "lau", "bost", "sei", "zazpi", "zortzi", "bederatzi"}},
    {"English", {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}},
    {"Tamil", {"poojyam", "ondru", "irandu", "moondru", "naangu", "aindhu", "aaru", "ezhu", "ettu", "onbadhu"}},
};

job look_up(const std::string& language, std::size_t digit) {
  return job([=](auto& self) {
    const auto dictionary = dictionaries.find(language);
    if (dictionary == dictionaries.end()) throw std::invalid_argument("no dictionary of " + language);
    for (std::size_t turns = digit % 3; turns > 0; --turns) self.yield();
    return dictionary->second[digit];
  });
}

job translate(const std::string& language, int number) {
  return job([=](auto& self) {
    std::string words;
    for (const char digit : std::to_string(number)) {
      if (!words.empty()) words += ' ';
      words += self.yield_from(look_up(language, static_cast<std::size_t>(digit - '0')));  // gives way as it does
    }
    return words;
  });
}

struct task {
  enum class status { queued, running, finished, failed };

  std::string name;
  job work;
  status now = status::queued;
  int turns = 0;
};

/// Resumes the oldest in the queue; who has not ended joins it again at the end.
class round_robin {
 public:
  void add(std::string name, job work) { tasks_.push_back({std::move(name), std::move(work)}); }

  std::vector<task> run() {
    std::vector<task> ended;
    while (!tasks_.empty()) {
      task t = std::move(tasks_.front());
      tasks_.pop_front();
      t.now = task::status::running;
      ++t.turns;
      try {
        t.now = t.work.next() ? task::status::queued : task::status::finished;
      } catch (const std::exception&) {
        t.now = task::status::failed;  // result() will say why
      }
      if (t.now == task::status::queued)
        tasks_.push_back(std::move(t));
      else
        ended.push_back(std::move(t));
    }
    return ended;
  }

 private:
  std::deque<task> tasks_;
};

}  // namespace

int main() {
  round_robin tasks;
  for (const int number : {12, 133, 120, 707})
    for (const std::string language : {"Basque", "English", "Tamil"})
      tasks.add(std::to_string(number) + " in " + language, translate(language, number));
  tasks.add("41 in Sumerian", translate("Sumerian", 41));

  for (task& t : tasks.run()) {  // in the order in which they ended
    std::cout << std::left << std::setw(16) << t.name << (t.now == task::status::failed ? "failed" : "finished")
              << " in its turn " << t.turns << ": ";
    try {
      std::cout << t.work.result() << '\n';
    } catch (const std::exception& e) {
      std::cout << e.what() << '\n';
    }
  }
}
