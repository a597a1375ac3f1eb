"""A server program under test: starts it on a processor of its own, waits until it answers, and ends it."""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .programs import Failed

START_SECONDS = 20  # until a server must answer
CALLS_FILE_SIZE = 4096
CALLS_FILE_VARIABLE = "NET_CALLS_FILE"  # counted_calls.hpp


def cores():
    """One for the server and another for the load; the same twice if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def on_core(core):
    """For preexec_fn: what is started runs there, and is ended with this process."""
    return lambda: os.sched_setaffinity(0, {core})


class Server:
    """A process that listens on `port` of 127.0.0.1."""

    def __init__(self, process, port, calls_file=None):
        self.process, self.port, self.calls_file = process, port, calls_file

    @property
    def pid(self):
        return self.process.pid


def _environment(calls_file):
    # One processor, as many as it has cores: also for programs that ask for it instead of looking.
    env = dict(os.environ, COIR_PROCS="1", GOMAXPROCS="1")
    if calls_file:
        env[CALLS_FILE_VARIABLE] = calls_file
    return env


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _port_printed(process):
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    words = process.stdout.readline().split() if readable else []
    if len(words) != 2 or words[0] != "port":
        raise Failed(f"{os.path.basename(process.args[0])} does not say its port: {_last_words(process)}")
    return int(words[1])


def _last_words(process):
    process.kill()
    return (process.stderr.read().strip() or "no message").splitlines()[-1]


def _await_port(process, port):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    raise Failed(f"{os.path.basename(process.args[0])} does not listen: {_last_words(process)}")


@contextlib.contextmanager
def started(command, port=None, counted=False):
    """The command as a Server. It prints "port N", or listens on `port`. `counted`: it writes its system calls."""
    with tempfile.TemporaryDirectory() as folder:
        calls_file = os.path.join(folder, "calls") if counted else None
        if calls_file:
            with open(calls_file, "wb") as f:
                f.truncate(CALLS_FILE_SIZE)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=_environment(calls_file), preexec_fn=on_core(cores()[0]))
        try:
            if port is None:
                port = _port_printed(process)
            else:
                _await_port(process, port)
            yield Server(process, port, calls_file)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            process.stderr.close()


NGINX_CONFIGURATION = """daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000; default_type text/plain;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "Hello, World!"; }} }}
}}
"""


@contextlib.contextmanager
def nginx():
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        configuration = os.path.join(folder, "nginx.conf")
        with open(configuration, "w", encoding="utf-8") as f:
            f.write(NGINX_CONFIGURATION.format(folder=folder, port=port))
        with started([shutil.which("nginx", path=_search_path()), "-p", folder, "-c", configuration], port) as server:
            yield server


@contextlib.contextmanager
def redis():
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [shutil.which("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                   "--appendonly", "no", "--dir", folder, "--loglevel", "warning"]
        with started(command, port) as server:
            yield server


@contextlib.contextmanager
def on_free_port(command):
    port = free_port()
    with started([*command, "--port", str(port)], port) as server:
        yield server


def _search_path():
    return os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"


def have(program):
    return shutil.which(program, path=_search_path()) is not None
