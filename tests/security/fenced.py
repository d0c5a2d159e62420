# SPDX-License-Identifier: Apache-2.0
"""What is otherwise on the landlock runtime, which has no namespaces, attempt by attempt, and why.

Attempts are made there as everywhere; where the answer differs it is here, and another one fails the
test. None of them works there and not elsewhere; what is shared is in `effective.shares`."""

SHARED = "without namespaces the host's name is seen; effective.shares says so"
SOCKETS = "there is no socket to connect with: not even one can be made"
QUEUES = "there is no ipc namespace, so there are no such objects at all"
TERMINALS = "a command cannot open a terminal of its own"

_TABLE = (
    ("ENOENT", "the runner's program is not in a place that commands see", "P2 change the runner's program"),
    ("EPERM", QUEUES, "P6 the neighbour's System V memory", "P6 the neighbour's System V queue",
     "P6 the neighbour's System V semaphore", "P6 the neighbour's POSIX queue"),
    ("EBADF", SOCKETS, "P6 the neighbour's abstract socket", "P6 the neighbour by loopback",
     "P7 an address of the world", "P7 the cloud's metadata address", "P7 take loopback down"),
    ("EACCES", TERMINALS, "P12 type into a terminal: TIOCSTI", "P12 TIOCSTI with bits above 32",
     "P12 another line discipline, loaded for it: TIOCSETD", "P12 TIOCLINUX"),
)

ANSWERS = {name: (answer, reason) for answer, reason, *names in _TABLE for name in names}
