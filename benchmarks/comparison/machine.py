"""What a result must say about where it was measured."""

import datetime
import os
import platform
import re
import subprocess


def describe(root):
    """A dict of strings, in the order in which they are to be read. `root` is the repository."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "coir": _revision(root),
        "CPU": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": f"{platform.system()} {platform.release()}",
        "compiler": _first_line(["c++", "--version"]),
        "Go": _first_line(["go", "version"]),
        "Boost": _boost_version(),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
    }


def _first_line(command, directory=None):
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = done.stdout.splitlines()
    return lines[0] if done.returncode == 0 and lines else "unknown"


def _revision(root):
    revision = _first_line(["git", "describe", "--always", "--dirty", "--exclude=*"], root)
    return revision


def _cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith(("model name", "Model")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine() or "unknown"


def _boost_version():
    try:
        with open("/usr/include/boost/version.hpp", encoding="utf-8") as f:
            match = re.search(r'BOOST_LIB_VERSION "([\d_]+)"', f.read())
    except OSError:
        match = None
    return match.group(1).replace("_", ".") if match else "unknown"
