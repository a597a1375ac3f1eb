// process: other programs, from their start to their end.
#include <coir/io.hpp>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "net_test.hpp"

namespace {

using coir::process;
using coir::process_options;
using coir::standard_stream;
using coir_test::until_blocked;
using net_test::error_of;
using net_test::put;
using net_test::take;
using net_test::take_all;
using net_test::temporary_folder;
using namespace std::chrono_literals;

class process_test : public net_test::io_test {};

std::vector<std::string> shell(std::string command) { return {"/bin/sh", "-c", std::move(command)}; }

bool exists(::pid_t id) { return ::kill(id, 0) == 0; }

TEST_P(process_test, ItsStreamsLeadHere) {
  both([] {
    process cat({"cat"});
    put(cat.in(), "through a child");
    cat.in().close();
    EXPECT_EQ(take_all(cat.out()), "through a child");
    EXPECT_EQ(take_all(cat.err()), "");
    EXPECT_EQ(cat.wait(), 0);
    EXPECT_EQ(cat.wait(), 0) << "again";
  });
}

TEST_P(process_test, OutAndErrAreApart) {
  run([] {
    process p(shell("echo good; echo bad >&2"));
    EXPECT_EQ(take_all(p.out()), "good\n");
    EXPECT_EQ(take_all(p.err()), "bad\n");
  });
}

TEST_P(process_test, ErrCanLeadWhereOutLeads) {
  run([] {
    process p(shell("echo one; echo two >&2; echo three"), {.err = standard_stream::to_out});
    EXPECT_EQ(take_all(p.out()), "one\ntwo\nthree\n");
    EXPECT_FALSE(p.err().is_open());
    EXPECT_THROW(process(shell("true"), {.out = standard_stream::to_out}), std::invalid_argument);
    EXPECT_THROW(process(shell("true"), {.in = standard_stream::to_out}), std::invalid_argument);
  });
}

TEST_P(process_test, StreamsCanLeadNowhere) {
  run([] {
    constexpr auto null = standard_stream::null;
    process p(shell("cat; echo lost; echo lost >&2; exit 4"), {.in = null, .out = null, .err = null});
    EXPECT_FALSE(p.in().is_open());
    EXPECT_FALSE(p.out().is_open());
    EXPECT_FALSE(p.err().is_open());
    EXPECT_EQ(p.wait(), 4);
  });
}

TEST_P(process_test, ExitCodesAndSignals) {
  both([] {
    EXPECT_EQ(process(shell("exit 0")).wait(), 0);
    EXPECT_EQ(process(shell("exit 7")).wait(), 7);
    EXPECT_EQ(process(shell("exit 255")).wait(), 255);
    EXPECT_EQ(process(shell("kill -TERM $$")).wait(), 128 + SIGTERM);
    EXPECT_EQ(process(shell("kill -KILL $$")).wait(), 128 + SIGKILL);
  });
}

TEST_P(process_test, AProgramThatIsNotThereIsAnErrorWithItsName) {
  both([] {
    EXPECT_EQ(error_of([] { process({"coir-no-such-program"}); }), std::errc::no_such_file_or_directory);
    coir_test::expect_throw_message<std::system_error>([] { process({"coir-no-such-program"}); },
                                                       "coir-no-such-program");
    EXPECT_EQ(error_of([] { process({"/etc/passwd"}); }), std::errc::permission_denied);
    EXPECT_THROW(process(std::vector<std::string>{}), std::invalid_argument);
    EXPECT_THROW(process({""}), std::invalid_argument);
    EXPECT_THROW(process({"echo", std::string("a\0b", 3)}), std::invalid_argument);
    EXPECT_THROW(process({"true"}, {.directory = std::string("/\0tmp", 5)}), std::invalid_argument);
    coir_test::expect_throw_message<std::system_error>([] { process({"true"}, {.directory = "/no/such/folder"}); },
                                                       "/no/such/folder");
  });
}

TEST_P(process_test, ItRunsInADirectoryWithAnEnvironment) {
  run([] {
    const temporary_folder folder;
    process p(shell("pwd -P; echo $COIR_TEST; echo ${HOME-none}"),
              {.directory = folder.path(), .environment = std::vector<std::string>{"COIR_TEST=set", "PATH=/bin"}});
    const std::string real = std::filesystem::canonical(folder.path()).string();
    EXPECT_EQ(take_all(p.out()), real + "\nset\nnone\n");
    EXPECT_EQ(p.wait(), 0);
    ::setenv("COIR_TEST_INHERITED", "yes", 1);
    process heir(shell("echo $COIR_TEST_INHERITED"));
    EXPECT_EQ(take_all(heir.out()), "yes\n");
  });
}

TEST_P(process_test, ArgumentsArriveAsTheyAre) {
  run([] {
    process p({"printf", "%s|", "a b", "$HOME", "", "\"'"});
    EXPECT_EQ(take_all(p.out()), "a b|$HOME||\"'|");
  });
}

TEST_P(process_test, ItStartsWithNoSignalBlockedOrIgnored) {
  run([] {
    ::signal(SIGPIPE, SIG_IGN);
    process p(shell("kill -PIPE $$; echo survived"));
    EXPECT_EQ(take_all(p.out()), "");
    EXPECT_EQ(p.wait(), 128 + SIGPIPE);
    ::signal(SIGPIPE, SIG_DFL);
  });
}

TEST_P(process_test, KillFromElsewhereEndsAWait) {
  run([] {
    process p({"sleep", "1000"}, {.in = standard_stream::null});
    coir::task<int> waits = coir::spawn([&] { return p.wait(); });
    coir::task<int> also = coir::spawn([&] { return p.wait(); });
    until_blocked(waits);
    EXPECT_EQ(error_of([&] { p.kill(-5); }), std::errc::invalid_argument);
    p.kill(SIGTERM);
    EXPECT_EQ(waits.get(), 128 + SIGTERM);
    EXPECT_EQ(also.get(), 128 + SIGTERM);
    p.kill(SIGTERM);  // it has ended: nothing
  });
}

TEST_P(process_test, AWaitCanBeCancelledAndTakenUpAgain) {
  run([] {
    process p(shell("read line; exit 3"));
    EXPECT_THROW(coir::timeout(2ms, [&] { p.wait(); }), coir::timed_out);
    put(p.in(), "go\n");
    EXPECT_EQ(p.wait(), 3);
  });
}

TEST_P(process_test, TheDestructorClosesThePipesAndWaits) {
  both([] {
    ::pid_t id = 0;
    {
      const process cat({"cat"});  // ends when its input does
      id = cat.id();
      EXPECT_TRUE(exists(id));
    }
    EXPECT_FALSE(exists(id));
  });
}

TEST_P(process_test, TheDestructorWaitsInACancelledFiberToo) {
  run([] {
    std::atomic<::pid_t> id{0};
    coir::task<void> owner = coir::spawn([&] {
      process p(shell("trap '' TERM; read line; sleep 0.02"));
      id = p.id();
      take(p.out(), 1);
    });
    until_blocked(owner);
    owner.request_stop();
    EXPECT_THROW(owner.get(), coir::task_cancelled);
    EXPECT_FALSE(exists(id));
  });
}

TEST_P(process_test, ToMoveOneOntoAnotherEndsTheOther) {
  run([] {
    process a({"cat"}), b({"cat"});
    const ::pid_t first = a.id(), second = b.id();
    a = std::move(b);
    EXPECT_FALSE(exists(first));
    EXPECT_EQ(a.id(), second);
    put(a.in(), "x");
    EXPECT_EQ(take(a.out(), 1), "x");
  });
}

TEST_P(process_test, ADetachedOneGoesOn) {
  run([] {
    auto [out, in] = coir::make_pipe();
    ::pid_t id = 0;
    {
      process p(shell("read line; exit 5"));
      id = p.id();
      in = std::move(p.in());
      p.detach();
    }
    EXPECT_TRUE(exists(id));
    put(in, "go\n");
    int status = 0;
    EXPECT_EQ(coir::blocking([&] { return ::waitpid(id, &status, 0); }), id);
    EXPECT_EQ(WEXITSTATUS(status), 5);
    EXPECT_EQ(take_all(out), "");
  });
}

TEST_P(process_test, OthersRunMeanwhile) {
  run([] {
    process p(shell("read line; echo done"));
    coir::task<int> waits = coir::spawn([&] { return p.wait(); });
    int steps = 0;
    until_blocked(waits);
    for (; steps < 100; ++steps) coir::yield();
    put(p.in(), "x\n");
    EXPECT_EQ(take_all(p.out()), "done\n");
    EXPECT_EQ(waits.get(), 0);
    EXPECT_EQ(steps, 100);
  });
}

TEST_P(process_test, ManyAtOnce) {
  run([] {
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 12; ++i)
      all.push_back(coir::spawn([i] {
        process p(shell("read x; echo $x; exit " + std::to_string(i)));
        put(p.in(), "line " + std::to_string(i) + "\n");
        EXPECT_EQ(take_all(p.out()), "line " + std::to_string(i) + "\n");
        EXPECT_EQ(p.wait(), i);
      }));
    for (auto& t : all) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, process_test, coir_test::processors, coir_test::processors_name);

}  // namespace
