"""The network rows: a server on one core, its load on another. Each row starts the server of a program, drives it for
about a second and returns its figures. All servers have one processor.

A program here is a coir server or one of its peers; it knows the rows that its server can do. Figures are costs (less
is better): us of the server's CPU time or of wall time a request, calls a request, bytes a connection."""

import os
import re
import subprocess

from . import servers
from .programs import Failed

SECONDS = 0.6  # of one measurement
COUNTED_SECONDS = 0.3  # of one that counts system calls
TURNS = 3  # of the two servers that a ratio is made of
IDLE_CONNECTIONS = 10_000
WRK_CONNECTIONS = 256
REDIS_CLIENTS = 50
REDIS_REQUESTS = 100_000


class NetProgram:
    """`server`: the program in C++ or Go that net_load drives, of which there may be a counted one."""

    def __init__(self, name, directory, server=None, modes=("echo",), http=None, redis=None):
        self.name = name
        self.load = os.path.join(directory, "net_load")
        self.server = os.path.join(directory, server) if server else None
        self._modes, self._http, self._redis = modes, http, redis  # the last two: make a server

    def rows(self):
        rows = []
        if self.server and os.access(self.server, os.X_OK) and os.access(self.load, os.X_OK):
            rows += [row for row, (mode, _) in DRIVEN.items() if mode in self._modes]
        if self._http and servers.have("wrk"):
            rows.append("net_http")
        if self._redis and servers.have("redis-benchmark"):
            rows += ["net_redis", "net_redis_pipelined"]
        return rows

    def run(self, row, processors, timeout):
        """Returns {name: (value, unit, note)}; raises Failed."""
        del processors  # always one
        if row == "net_http":
            return _http(self._http, timeout)
        if row in REDIS_PIPELINES:
            return _redis(self._redis, row, timeout)
        mode, measure = DRIVEN[row]
        return measure(self, row, mode, timeout)


def _drive(program, mode, arguments, timeout, counted=False):
    """One run of net_load against that mode of the program's server: {figure: value}."""
    command = [program.server + ("_counted" if counted else ""), mode]
    with servers.started(command, counted=counted) as server:
        return _drive_server(program, server, arguments, timeout)


def _drive_server(program, server, arguments, timeout):
    kind, *options = arguments
    if server.calls_file:
        options.append(f"calls={server.calls_file}")
    output = _load([program.load, kind, str(server.port), str(server.pid), *options], timeout)
    return {name: float(value) for name, value in (line.split() for line in output.splitlines())}


def _load(command, timeout):
    """What it prints, on the load's core."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                              preexec_fn=servers.on_core(servers.cores()[1]))
    except subprocess.TimeoutExpired:
        raise Failed(f"{os.path.basename(command[0])} not done after {timeout:g} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise Failed(f"{os.path.basename(command[0])} ended with {done.returncode}: {last}")
    return done.stdout


# ---- rows of net_load --------------------------------------------------------------------------------------------

def _requests(*arguments, count_calls=True):
    """A row of requests: their costs, and the system calls if there is a server that counts them."""

    def measure(program, row, mode, timeout):
        options = [*arguments, f"seconds={SECONDS}"]
        figures = _drive(program, mode, options, timeout)
        if count_calls and os.access(program.server + "_counted", os.X_OK):
            counted = _drive(program, mode, [*arguments, f"seconds={COUNTED_SECONDS}"], timeout, counted=True)
            figures.update({name: counted[name] for name in ("calls", "futexes")})
        units = {"cpu": "us", "time": "us", "p50": "us", "p99": "us", "calls": "calls", "futexes": "calls"}
        return {f"{row}_{name}": (figures[name], unit, "") for name, unit in units.items() if name in figures}

    return measure


def _beside(program, row, mode, timeout):
    """Latency beside fibers that want the processor: of one connection in a closed loop, and (paced) of eight that
    pause for a millisecond before each request."""
    values = {}
    for name, options in (("", ["connections=1"]), ("_paced", ["connections=8", "pause_us=1000"])):
        figures = _drive(program, mode, ["echo", *options, f"seconds={2 * SECONDS}"], timeout)
        values.update({f"{row}{name}_{each}": (figures[each], "us", "") for each in ("p50", "p99")})
    return values


def _ratio_of(with_it, without, *arguments):
    """A row that compares two loads of one program, in turn: CPU time a request with something, over that without."""

    def measure(program, row, mode, timeout):
        costs = {}
        for _ in range(TURNS):
            for extra, m in ((with_it, mode), (without, "echo")):
                figures = _drive(program, m, [*arguments, *extra, f"seconds={SECONDS / 2}"], timeout)
                costs.setdefault(m, []).append(figures["cpu"])
        return {f"{row}_ratio": (min(costs[mode]) / min(costs["echo"]), "x", "")}

    return measure


def _idle(program, row, mode, timeout):
    figures = _drive(program, mode, ["idle", f"connections={IDLE_CONNECTIONS}"], timeout)
    values = {f"{row}_bytes": (figures["bytes"], "bytes", ""), f"{row}_switches": (figures["switches"], "switches", "")}
    if program.name == "coir":  # beyond a parked fiber, of which the same program tells the size
        parked = _load([program.server, "parked", str(IDLE_CONNECTIONS)], timeout)
        values[f"{row}_beyond"] = (figures["bytes"] - float(parked.split()[1]), "bytes", "")
    return values


# Row: the server's mode, and what is done with it.
DRIVEN = {
    "net_echo1": ("echo", _requests("echo", "connections=1")),
    "net_echo64": ("echo", _requests("echo", "connections=64")),
    "net_echo256": ("echo", _requests("echo", "connections=256")),
    "net_echo1024": ("echo", _requests("echo", "connections=1024")),
    "net_connect": ("echo", _requests("connect", "connections=64", count_calls=False)),
    "net_beside_yielding": ("yielding", _beside),
    "net_beside_computing": ("computing", _beside),
    "net_deadline": ("deadline", _ratio_of([], [], "echo", "connections=64")),
    "net_crowd": ("timers", _ratio_of([f"idle={IDLE_CONNECTIONS}"], [], "echo", "connections=64")),
    "net_idle": ("echo", _idle),
}


# ---- rows of other loads -----------------------------------------------------------------------------------------

def _cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _http(make_server, timeout):
    """wrk: us of wall time and of the server's CPU time a request. All servers answer "Hello, World!" as text/plain."""
    with make_server() as server:
        url = f"http://127.0.0.1:{server.port}/plaintext"
        wrk = ["wrk", "-t", "1", "-c", str(WRK_CONNECTIONS)]
        _load([*wrk, "-d", "1s", url], timeout)
        before = _cpu_seconds(server.pid)
        output = _load([*wrk, "-d", "2s", url], timeout)
        cpu = _cpu_seconds(server.pid) - before
    rate = re.search(r"Requests/sec:\s*([\d.]+)", output)
    total = re.search(r"(\d+) requests in", output)
    errors = re.search(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", output)
    if not rate or not total or float(rate[1]) == 0 or errors:
        raise Failed(f"wrk: {errors[0] if errors else 'no rate'}")
    return {"net_http_time": (1e6 / float(rate[1]), "us", ""), "net_http_cpu": (cpu * 1e6 / int(total[1]), "us", "")}


REDIS_PIPELINES = {"net_redis": 1, "net_redis_pipelined": 16}


def _redis(make_server, row, timeout):
    """redis-benchmark: us of wall time a request, of GET and of SET."""
    pipeline = REDIS_PIPELINES[row]
    with make_server() as server:
        values = {}
        for command in ("set", "get"):
            count = REDIS_REQUESTS * (4 if pipeline > 1 else 1)
            output = _load(["redis-benchmark", "-h", "127.0.0.1", "-p", str(server.port), "-c", str(REDIS_CLIENTS),
                            "-n", str(count), "-P", str(pipeline), "-t", command, "--csv"], timeout)
            line = [each for each in output.splitlines() if each.startswith(f'"{command.upper()}"')]
            if not line:
                raise Failed(f"redis-benchmark: no figure of {command}")
            values[f"{row}_{command}"] = (1e6 / float(line[0].split(",")[1].strip('"')), "us", "")
        return values


# ---- the programs ------------------------------------------------------------------------------------------------

def find(build, only=None):
    """coir's servers first, then each peer that is there."""
    here = os.path.join(build, "net")
    examples = os.path.join(os.path.dirname(build), "examples")
    http_server = os.path.join(examples, "example_http_server")
    redis_server = os.path.join(examples, "example_redis_server")

    def example(path):
        return (lambda: servers.on_free_port([path])) if os.access(path, os.X_OK) else None

    go = os.path.join(here, "net_go")
    everything = ("echo", "deadline", "yielding", "computing", "timers")
    candidates = [
        NetProgram("coir", here, "net_coir", everything, example(http_server), example(redis_server)),
        NetProgram("raw epoll", here, "net_epoll"),
        NetProgram("bare stacks", here, "net_stacks"),
        NetProgram("Go", here, "net_go", everything, http=lambda: servers.started([go, "http"])),
        NetProgram("Asio", here, "net_asio"),
        NetProgram("Boost.Fiber", here, "net_boost_fiber"),
        NetProgram("nginx", here, http=servers.nginx if servers.have("nginx") else None),
        NetProgram("redis-server", here, redis=servers.redis if servers.have("redis-server") else None),
    ]
    found = [p for p in candidates if p.rows() and not (p.name == "Go" and not os.access(go, os.X_OK))]
    if not found or found[0].name != "coir":
        raise SystemExit(f"compare.py: {candidates[0].server} is not there; build the benchmarks first (make build)")
    for p in candidates:
        if p not in found:
            print(f"{p.name}: not there, left out")
    if only:
        found = [p for p in found if p.name == "coir" or p.name.lower() in only]
    return found
