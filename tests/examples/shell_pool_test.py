"""Drives example_shell_pool: order, how many at once, deadlines, failures."""

import os
import tempfile
import unittest

import server


def pool(*arguments, commands, code=0):
    out, err = server.run_example(*arguments, input="\n".join(commands).encode() + b"\n", code=code)
    return out.decode(), err.decode()


class ShellPool(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_output_is_in_the_order_of_the_list(self):
        # The first ends only after the last has.
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        out, err = pool(commands=[f"cat {fifo}; echo first", "echo second", f"echo third; echo from last > {fifo}"])
        self.assertEqual((out, err), ("from last\nfirst\nsecond\nthird\n", ""))

    def test_no_more_at_once_than_allowed(self):
        # Each makes a folder that is gone when it ends: were there two, the second could not.
        lock = self.path("lock")
        out, _ = pool("-n", "1", commands=[f"mkdir {lock} && echo {i}; rmdir {lock}" for i in range(20)])
        self.assertEqual(out, "".join(f"{i}\n" for i in range(20)))

    def test_large_output_and_both_streams(self):
        out, _ = pool(commands=["head -c 300000 /dev/zero | tr '\\0' x", "echo to stderr >&2"])
        self.assertEqual(out, "x" * 300_000 + "to stderr\n")

    def test_failures_are_told_and_the_others_run(self):
        out, err = pool(commands=["exit 3", "kill -9 $$", "no_such_program 2>/dev/null", "echo ok"], code=1)
        self.assertEqual(out, "ok\n")
        self.assertEqual(err, "exit 3: exit code 3\nkill -9 $$: exit code 137\n"
                              "no_such_program 2>/dev/null: exit code 127\n")

    def test_what_takes_too_long_is_killed_with_all_that_it_has_started(self):
        commands = ["exec sleep 1000", "sleep 1001; echo not reached"]
        out, err = pool("-t", "0.2", commands=commands, code=1)
        self.assertEqual((out, err), ("", "".join(f"{c}: took too long\n" for c in commands)))

    def test_a_file_of_commands(self):
        with open(self.path("list"), "w") as f:
            f.write("echo a\n\necho b\n")
        out, _ = server.run_example(self.path("list"))
        self.assertEqual(out, b"a\nb\n")
        server.run_example(self.path("none"), code=2)
        server.run_example("-n", "0", code=2)


server.main()
