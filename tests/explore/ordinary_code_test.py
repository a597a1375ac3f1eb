"""In the ordinary library, decisions of explorations cost no instruction: its sources compile to the same machine code
with and without them.

  ordinary_code_test.py COMPILER SOURCE_DIR WORK_DIR"""

import os
import re
import shutil
import subprocess
import sys

FOLDERS = ("runtime", "channel", "sync")
SOURCES = ("channel/chan_core.cpp", "channel/select.cpp", "runtime/sched/park.cpp", "runtime/task.cpp",
           "sync/locks/mutex.cpp", "sync/locks/semaphore.cpp", "program.cpp")
# What a program compiles of the headers.
PROGRAM = """
#include <mutex>
#include <coir/chan.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
int work(coir::chan<int> in, coir::chan<int> out, coir::mutex& m) {
  coir::task<int> other = coir::spawn([=] { return in.recv().value_or(0); });
  coir::go([=] { out.send(1); });
  coir::select(coir::on_recv(in), coir::on_send(out, 2), coir::otherwise());
  int least = 0;
  if (out.try_send(3) == coir::send_status::done && in.try_recv(least) != coir::recv_status::closed) coir::yield();
  const std::lock_guard locked(m);
  return other.get() + least;
}
"""
DECISION = re.compile(r"(?<![\w:])(?:coir::)?(?:detail::)?(?:decide|decide_after_poll|refuse_in_exploration)"
                      r"\((?:[^()]|\([^()]*\))*\);")


def copied(source, to, without_decisions):
    """How many decisions there were."""
    found = 0
    for folder in FOLDERS:
        shutil.copytree(os.path.join(source, folder), os.path.join(to, folder))
    for directory, _, names in os.walk(to):
        for name in names:
            if not name.endswith((".hpp", ".cpp")) or name == "decision.hpp":
                continue
            path = os.path.join(directory, name)
            with open(path, encoding="utf-8") as file:
                text, n = DECISION.subn(";", file.read())
            found += n
            if n and without_decisions:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    with open(os.path.join(to, "program.cpp"), "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    return found


def code(compiler, directory, source):
    includes = [f"-I{folder}{end}" for folder in FOLDERS for end in ("", "/include")]
    subprocess.run([*compiler, "-std=c++20", "-O2", "-DNDEBUG", *includes, "-c", source, "-o", "code.o"], cwd=directory,
                   check=True)
    dump = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", "code.o"], cwd=directory, check=True, text=True,
                          capture_output=True).stdout
    return dump.splitlines()


def main():
    compiler, source, work = sys.argv[1].split(";"), sys.argv[2], sys.argv[3]
    shutil.rmtree(work, ignore_errors=True)
    decisions = [copied(source, os.path.join(work, name), name == "without") for name in ("with", "without")]
    if decisions[0] < 50:
        sys.exit(f"only {decisions[0]} decisions found: this test does not know how they are written any more")
    for each in SOURCES:
        first, second = (code(compiler, os.path.join(work, name), each) for name in ("with", "without"))
        if first != second:
            sys.exit(f"{each}: other code without decisions")
        print(f"{each}: {len(first)} lines of code, the same")


main()
