"""Starts PostgreSQL or Redis for a test, in a temporary folder, on a socket there; nothing listens on a port.

    python3 databases.py postgres COMMAND ARGUMENTS...     runs the command while the server runs, and ends as it does
    python3 databases.py redis COMMAND ARGUMENTS...

It ends with 77, which CTest shows as skipped, if the server is not installed. The command finds PostgreSQL through libpq's
own variables (PGHOST, PGUSER, PGDATABASE), Redis through COIR_REDIS_SOCKET. A driver of an example imports the classes.

The server ends with who has started it, however that ends: the kernel sees to it. All waits are bounded.
"""

import ctypes
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 60
SKIPPED = 77
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class NotInstalled(Exception):
    pass


def start(arguments, last_signal=signal.SIGKILL, **options):
    """A subprocess.Popen that gets that signal when this process ends. Call it from the main thread alone."""
    return subprocess.Popen(arguments, preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, last_signal), **options)


class _Database:
    """A server in a folder of its own, from the beginning of a `with` to its end."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="coir_")
        self._process = None
        try:
            with open(self.folder + "/log", "wb") as self._log:
                self._start()
                self._until_ready()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        if self._process is not None:
            self._process.send_signal(self._end)
            try:
                self._process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if kind is not None and kind is not NotInstalled and os.path.exists(self.folder + "/log"):
            with open(self.folder + "/log", errors="replace") as log:
                sys.stderr.write(log.read())
        shutil.rmtree(self.folder, ignore_errors=True)

    def _until_ready(self):
        end = time.monotonic() + SECONDS
        while not self._is_ready():
            if self._process.poll() is not None:
                raise AssertionError("the server has ended")
            if time.monotonic() > end:
                raise AssertionError("the server does not become ready")
            time.sleep(0.02)


class Postgres(_Database):
    """self.environment: what libpq looks at. PostgreSQL refuses to run as root, so root runs it as its own user."""

    _end = signal.SIGINT  # at once, but in order

    def _start(self):
        programs = self._programs()
        options = {"stdout": self._log, "stderr": self._log, "cwd": self.folder}
        if os.geteuid() == 0:
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                raise NotInstalled("PostgreSQL's user is not there") from None
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            options.update(user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        data = self.folder + "/data"
        made = start([programs + "/initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8",
                      "--locale=C", "--pgdata=" + data], **options)
        if made.wait(SECONDS) != 0:
            raise AssertionError("initdb has failed")
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off",
                    "max_connections": "120", "shared_buffers": "16MB", "autovacuum": "off"}
        self._process = start([programs + "/postgres", "-D", data]
                              + [part for name, value in settings.items() for part in ("-c", f"{name}={value}")],
                              last_signal=signal.SIGQUIT, **options)
        self._ready = programs + "/pg_isready"
        self.environment = {"PGHOST": self.folder, "PGUSER": "postgres", "PGDATABASE": "postgres"}

    def _is_ready(self):
        return subprocess.run([self._ready, "-q", "-h", self.folder], check=False).returncode == 0

    @staticmethod
    def _programs():
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres")) or [shutil.which("postgres")]
        if found[-1] is None:
            raise NotInstalled("PostgreSQL is not installed")
        return os.path.dirname(found[-1])


class Redis(_Database):
    _end = signal.SIGTERM

    def _start(self):
        program = shutil.which("redis-server")
        if program is None:
            raise NotInstalled("redis-server is not installed")
        path = self.folder + "/socket"
        self._process = start([program, "--port", "0", "--unixsocket", path, "--save", "", "--dir", self.folder,
                               "--maxclients", "2000"], stdout=self._log, stderr=self._log)
        self.environment = {"COIR_REDIS_SOCKET": path}

    def _is_ready(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS)
            try:
                client.connect(self.environment["COIR_REDIS_SOCKET"])
                client.sendall(b"PING\r\n")
                return client.recv(5) == b"+PONG"
            except OSError:
                return False


def main():
    kinds = {"postgres": Postgres, "redis": Redis}
    # So that what is below is undone when CTest ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with kinds[sys.argv[1]]() as server:
            command = start(sys.argv[2:], env={**os.environ, **server.environment})
            return command.wait()
    except NotInstalled as reason:
        print(f"skipped: {reason}")
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
