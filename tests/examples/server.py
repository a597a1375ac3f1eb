"""Runs an example program for a test, and its clients.

A driver is tests/examples/<name>_test.py, which CTest calls with the path of the program:

    import server

    class Echo(unittest.TestCase):
        def test_says_what_it_was_told(self):
            with server.Server() as s:
                with s.connect() as client: ...

    server.main()

Nothing that is started here outlives the driver, however the driver ends. All waits are bounded, by far more than a loaded
machine needs: a bound that is reached is a hang. A program fails its test if it ends with anything but 0 or writes a
sanitizer's report. A test that needs a program which is not installed calls need(), and is skipped; the driver then ends
with 77, which CTest shows as skipped.
"""

import ctypes
import faulthandler
import http.server
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

SECONDS = 40  # for anything that should happen at once
_REPORT = re.compile(rb"Sanitizer|runtime error:|terminate called|coir: fatal")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def program():
    """The path of the program that is tested."""
    return sys.argv[1]


def need(name):
    """The path of a client program; skips the test if there is none."""
    path = shutil.which(name)
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return path


def _die_with_the_driver():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(arguments, **options):
    """A subprocess.Popen that the kernel ends together with the driver. Call it from the main thread alone."""
    return subprocess.Popen(arguments, preexec_fn=_die_with_the_driver, **options)


def run(arguments, input=b"", seconds=SECONDS, **options):
    """Runs a program to its end: (its exit code, its standard output, its standard error), both as bytes."""
    with start(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(input, timeout=seconds)
        finally:
            process.kill()
    return process.returncode, out, err


def run_example(*arguments, input=b"", code=0, **options):
    """Runs the example to its end, which must be the exit code `code`: (standard output, standard error)."""
    result, out, err = run([program(), *arguments], input, **options)
    _check(result, code, err)
    return out, err


def _check(result, code, err):
    if result != code or _REPORT.search(err):
        raise AssertionError(f"the program ended with {result} instead of {code}; it wrote to stderr:\n"
                             + err.decode(errors="replace"))


class Server:
    """The example as a server: `program --port 0 arguments`, which prints its port as the first line.

    At the end of the `with` it is told to stop by SIGTERM, and must end with 0 and without a report.
    """

    def __init__(self, *arguments):
        self._arguments = [program(), "--port", "0", *arguments]

    def __enter__(self):
        self._stderr = tempfile.TemporaryFile()
        self._process = start(self._arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._stderr)
        self._lines = queue.Queue()
        self._drain = threading.Thread(target=self._read_output, daemon=True)
        self._drain.start()
        try:
            self.port = int(self.line())
        except BaseException:
            self._kill()
            sys.stderr.write(self._errors().decode(errors="replace"))
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
        finally:
            self._kill()

    def line(self):
        """The next line of its standard output."""
        line = self._lines.get(timeout=SECONDS)
        if line is None:
            raise AssertionError("the program's output has ended")
        return line

    def connect(self):
        """A socket that is connected with it, with a timeout."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def stop(self):
        """Tells it to stop and waits for its end. Again: nothing."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError("the program does not end after SIGTERM") from None
        _check(code, 0, self._errors())

    @property
    def pid(self):
        return self._process.pid

    def _read_output(self):
        for line in self._process.stdout:
            self._lines.put(line.decode(errors="replace").rstrip("\n"))
        self._lines.put(None)

    def _kill(self):
        self._process.kill()
        self._process.wait()
        self._drain.join()
        self._process.stdout.close()

    def _errors(self):
        self._stderr.seek(0)
        return self._stderr.read()


def serve_http(test, handler):
    """Python's HTTP server, until the test is over, with that http.server.BaseHTTPRequestHandler: its URL."""
    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    test.addCleanup(http_server.server_close)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    test.addCleanup(http_server.shutdown)
    return f"http://127.0.0.1:{http_server.server_address[1]}"


def main():
    """Runs the tests of the calling script. Skipped tests are named, and tell CTest."""
    faulthandler.dump_traceback_later(110, exit=True)  # before CTest's own bound: says where it hangs
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
