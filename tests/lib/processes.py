# SPDX-License-Identifier: Apache-2.0
"""Processes of this host, as /proc has them.

Any process can end between its listing and the look at it, also in the middle of a file. So no question here fails
because of that: lists leave out what has ended, and about one that has ended there is nothing to say (an empty text, no
members, no parent). What a test must know of a process that may end, it waits for."""
import os
import re


def all_pids():
    """Of every process of this host."""
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def proc_bytes(pid, name):
    """A file of its directory in /proc; also empty where this user may not read it."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as f:
            return f.read()
    except OSError:
        return b""


def proc_text(pid, name):
    return proc_bytes(pid, name).decode(errors="replace")


def proc_link(pid, name):
    """Where a link of its directory leads: exe, ns/net, fd/3."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def stat_fields(pid):
    """What is behind the name in its stat file: the state comes first, then the parent."""
    return proc_text(pid, "stat").rpartition(")")[2].split()


def state_of(pid):
    """The letter; of one that is reaped, the X of the dead."""
    return (stat_fields(pid) or ["X"])[0]


def lives(pid):
    """A zombie, whose parent has not reaped it yet, does not."""
    return state_of(pid) not in "ZX"


def parent_of(pid):
    fields = stat_fields(pid)
    return int(fields[1]) if fields else None


def ancestors_of(pid):
    found = []
    while pid and pid > 1 and (pid := parent_of(pid)) is not None:
        found.append(pid)
    return found


def parents():
    return {pid: parent for pid in all_pids() if (parent := parent_of(pid)) is not None}


def children_of(pid):
    return [p for p, parent in parents().items() if parent == pid]


def below(pid):
    """All that descend from a process, nearest first."""
    children = {}
    for p, parent in parents().items():
        children.setdefault(parent, []).append(p)
    found = list(children.get(pid, ()))
    for p in found:  # grows on the way
        found += children.get(p, ())
    return found


def below_now(pid):
    """The same from the kernel's own lists: much quicker, and may leave one out while others end. For what does not live long
    and is looked for again and again."""
    found = [pid]
    for p in found:
        found += map(int, proc_text(p, f"task/{p}/children").split())
    return found[1:]


def command_line(pid):
    """As the kernel has it: every word ends with a NUL."""
    return proc_bytes(pid, "cmdline")


def words_of(pid):
    return command_line(pid).decode(errors="replace").split("\0")[:-1]


def command_of(pid):
    """Its words with spaces between them."""
    return " ".join(words_of(pid))


def name_of(pid):
    """As ps shows it."""
    return proc_text(pid, "comm").rstrip("\n")


def program_of(pid):
    """The file's name of what it executes."""
    return os.path.basename(proc_link(pid, "exe").removesuffix(" (deleted)"))


def status_of(pid, task=None):
    """The members of its status file, or of one thread's."""
    text = proc_text(pid, f"task/{task}/status" if task else "status")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def resident_kib(pid):
    return int(status_of(pid)["VmRSS"].split()[0])


def descriptors_of(pid):
    """Where each open descriptor leads, by its number."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return {}
    return {int(n): link for n in numbers if (link := proc_link(pid, f"fd/{n}"))}


def processes(marker, among=None):
    """Those whose command line, with spaces between its words, has the marker; this process is none of them."""
    return [p for p in (all_pids() if among is None else among) if marker in command_of(p) and p != os.getpid()]


def running_exactly(command, among=None):
    """Those whose command line is this one."""
    return [p for p in (all_pids() if among is None else among) if command_of(p) == command]


def named(name, among=None):
    """Those that ps shows with this name."""
    return [p for p in (all_pids() if among is None else among) if name_of(p) == name]


def memory_has(pid, needle):
    """Whether any page that the process can read has these bytes. A process that this user may not look into fails."""
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            return any(span_has(memory, first, last, needle) for first, last in readable_spans(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def readable_spans(pid):
    for first, last, rights, rest in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (\S+)(.*)$", proc_text(pid, "maps"), re.M):
        if rights[0] == "r" and "[v" not in rest:  # what the kernel shows of itself is not to be read here
            yield int(first, 16), int(last, 16)


def span_has(memory, first, last, needle, at_once=1 << 24):
    """In pieces, of which each begins with the end of the one before it; as far as there is something to read."""
    if last - first > 1 << 32:  # what a sanitizer has reserved for its own notes
        return False
    try:
        memory.seek(first)
        data = b""
        while needle not in data:
            more = memory.read(min(at_once, last - first))
            if not more:
                return False
            data, first = data[-len(needle):] + more, first + len(more)
        return True
    except (OSError, ValueError, OverflowError):
        return False
