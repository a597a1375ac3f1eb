# gdb's view of coir's fibers, in a live process and in a core file:
#
#   info coir fibers            every fiber: id, name, state, what it waits on, where it was spawned
#   coir fiber ID bt            its backtrace; any other command of gdb's will do, too: frame 3, info locals
#
# It is a part of every program that is linked with coir (section .debug_gdb_scripts), so gdb loads it with the program if
# it may (set auto-load safe-path); else: source coir-gdb.py. The library needs no debug information: where things lie is
# said by a table of its own, coir_debug_table (runtime/observe/debugger.cpp), whose order is that of FIELDS.
import re
import time

import gdb
import gdb.unwinder

VERSION = 3
FIELDS = (
    "runtimes",  # address of a pointer to the std::vector<scheduler*> of all
    "scheduler_serial",
    "scheduler_fibers",  # std::vector<fiber*>, with nulls
    "scheduler_sized_fibers",  # the same, of those on stacks of sizes of their own
    "scheduler_coarse_time",
    "fiber_state",
    "fiber_word",
    "fiber_suspended",
    "fiber_why_what",
    "fiber_why_on",
    "fiber_since",
    "fiber_spawn_file",
    "fiber_spawn_line",
    "fiber_id",
    "fiber_name",  # std::string*
    "fiber_on",
    "worker_thread_id",
)
FREE, QUEUED = 0, 1  # run_state
WAITING = 2  # waiter::state


def read(address, size):
    return int.from_bytes(bytes(gdb.selected_inferior().read_memory(address, size)), "little")


def word(address):
    return read(address, 8)


def text(address):
    """The C string at the address."""
    if address == 0:
        return ""
    result = b""
    while len(result) < 4096:
        # Not across the end of a page, which may be the last one.
        chunk = bytes(gdb.selected_inferior().read_memory(address + len(result), 64 - (address + len(result)) % 64))
        if b"\0" in chunk:
            return (result + chunk[: chunk.index(b"\0")]).decode(errors="replace")
        result += chunk
    return result.decode(errors="replace")


def table():
    try:
        at = int(gdb.parse_and_eval("(unsigned long)&coir_debug_table"))
    except gdb.error:
        raise gdb.GdbError("This program has no coir in it, or has been stripped (no symbol coir_debug_table).")
    if not gdb.selected_inferior().threads():
        raise gdb.GdbError("The program is not running.")
    version = word(at)
    if version != VERSION:
        raise gdb.GdbError("coir_debug_table has version %d, this script wants %d." % (version, VERSION))
    return {name: word(at + 8 * (i + 1)) for i, name in enumerate(FIELDS)}


def is_core():
    return "Local core dump file" in gdb.execute("info files", to_string=True)


def pointers(vector):
    begin, end = word(vector), word(vector + 8)
    if begin == end:
        return []
    items = bytes(gdb.selected_inferior().read_memory(begin, end - begin))
    return [int.from_bytes(items[i : i + 8], "little") for i in range(0, len(items), 8)]


class Fiber:
    def __init__(self, t, at, now, core):
        self.id = word(at + t["fiber_id"])
        self.suspended = word(at + t["fiber_suspended"])
        state = read(at + t["fiber_state"], 1)
        self.free = state == FREE
        self.thread = 0
        name = word(at + t["fiber_name"])
        self.name = text(word(name)) if name else ""
        self.spawned = "%s:%d" % (text(word(at + t["fiber_spawn_file"])), read(at + t["fiber_spawn_line"], 4))
        if self.free:
            self.state = "free"
        elif word(at + t["fiber_word"]) & 0xFF == WAITING:
            self.state = "blocked in " + text(word(at + t["fiber_why_what"]))
            on = word(at + t["fiber_why_on"])
            if on:
                self.state += " 0x%x" % on
            # A core file does not say when it was written, but when the library last looked at the clock.
            self.state += " for at least " if core else " for "
            self.state += "%.3f s" % (max(now - word(at + t["fiber_since"]), 0) / 1e9)
        elif state == QUEUED:
            self.state = "queued"
        else:
            on = word(at + t["fiber_on"])
            self.thread = read(on + t["worker_thread_id"], 4) if on else 0
            self.state = "running on thread %d" % self.thread

    def describe(self):
        name = ' "%s"' % self.name if self.name else ""
        return "fiber %d%s, spawned at %s: %s" % (self.id, name, self.spawned, self.state)


def fibers():
    t = table()
    vector = word(t["runtimes"])
    if vector == 0:
        return
    core = is_core()
    for scheduler in pointers(vector):
        now = word(scheduler + t["scheduler_coarse_time"])
        if not core:
            now = max(now, time.monotonic_ns())  # the clock of a process on this machine
        for field in ("scheduler_fibers", "scheduler_sized_fibers"):
            for at in pointers(scheduler + t[field]):
                if at == 0:
                    continue
                f = Fiber(t, at, now, core)
                if not f.free:
                    yield f


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class FiberUnwinder(gdb.unwinder.Unwinder):
    """Makes the selected thread's innermost frame look as if it had been called by a suspended fiber."""

    def __init__(self):
        super().__init__("coir fiber")
        self.registers = None
        self.innermost = None

    def enter(self, suspended):
        frame = gdb.newest_frame()
        self.innermost = (int(frame.read_register("rsp")), int(frame.read_register("rip")))
        # x87 and SSE control words and, since Boost 1.77, a spare word; then these.
        spare = 8 if self.is_code(word(suspended + 0x40)) else 0
        names = ("r12", "r13", "r14", "r15", "rbx", "rbp", "rip")
        self.registers = {name: word(suspended + 8 + spare + 8 * i) for i, name in enumerate(names)}
        self.registers["rsp"] = suspended + 0x40 + spare
        gdb.invalidate_cached_frames()

    def leave(self):
        self.registers = None
        gdb.invalidate_cached_frames()

    @staticmethod
    def is_code(address):
        return "No symbol matches" not in gdb.execute("info symbol 0x%x" % address, to_string=True)

    def __call__(self, pending):
        if self.registers is None:
            return None
        sp, pc = pending.read_register("rsp"), pending.read_register("rip")
        if (int(sp), int(pc)) != self.innermost:
            return None
        info = pending.create_unwind_info(FrameId(gdb.Value(self.registers["rsp"] - 16).cast(sp.type), pc))
        for name, value in self.registers.items():
            info.add_saved_register(name, gdb.Value(value).cast(pending.read_register(name).type))
        return info


unwinder = FiberUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)


class InfoCoir(gdb.Command):
    """What there is of coir in the program: fibers."""

    def __init__(self):
        super().__init__("info coir", gdb.COMMAND_STATUS, prefix=True)


class InfoCoirFibers(gdb.Command):
    """Lists every fiber: id, name, where it was spawned, whether it runs, is queued or blocked, and on what."""

    def __init__(self):
        super().__init__("info coir fibers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        none = True
        for f in sorted(fibers(), key=lambda each: each.id):
            print(f.describe())
            none = False
        if none:
            print("No fibers." + (" (Was it gdb that wrote the core file? It leaves out their stacks.)" if is_core() else ""))


class Coir(gdb.Command):
    """Commands about coir's fibers."""

    def __init__(self):
        super().__init__("coir", gdb.COMMAND_STACK, prefix=True)


class CoirFiber(gdb.Command):
    """coir fiber ID COMMAND: runs a command of gdb's, such as bt, in a fiber's frames, which begin at number 1."""

    def __init__(self):
        super().__init__("coir fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        match = re.match(r"\s*(\d+)\s*(.*)", argument)
        if not match:
            raise gdb.GdbError("Usage: coir fiber ID bt")
        number, command = int(match.group(1)), match.group(2) or "bt"
        found = [f for f in fibers() if f.id == number]
        if not found:
            raise gdb.GdbError("There is no fiber %d." % number)
        print(found[0].describe())
        before = gdb.selected_thread()
        if found[0].thread:
            self.on_thread(found[0].thread, command)
        else:
            self.suspended(found[0].suspended, command)
        if before is not None:
            before.switch()

    @staticmethod
    def on_thread(number, command):
        for thread in gdb.selected_inferior().threads():
            if thread.ptid[1] == number:
                thread.switch()
                gdb.execute(command)
                return
        raise gdb.GdbError("There is no thread %d." % number)

    @staticmethod
    def suspended(context, command):
        unwinder.enter(context)
        try:
            first = gdb.newest_frame().older()
            if first is None:
                raise gdb.GdbError("Its stack cannot be read.")
            first.select()
            output = gdb.execute("with width 0 -- " + command, to_string=True)
        finally:
            unwinder.leave()
        # The thread's own innermost frame is no part of the fiber.
        print("\n".join(line for line in output.splitlines() if not line.startswith("#0 ")))


InfoCoir()
InfoCoirFibers()
Coir()
CoirFiber()
