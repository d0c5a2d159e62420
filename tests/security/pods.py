# SPDX-License-Identifier: Apache-2.0
"""What is otherwise in a pod, attempt by attempt, and why.

Attempts are made there as everywhere; where the answer differs it is here, and another one fails the test. "works": it does, and
the reason says why it may."""

SAME_USER = "the runner has the commands' user; effective.shares says so, and it ends their own sandbox at most (test-inside.py)"
UNPROVEN = "the cluster of this suite enforces no network policy, and effective claims no wall; test-network.py has one that does"

_TABLE = (
    ("ENOENT", "its program is at another place, which test-inside.py tries", "P2 change the runner's program"),
    ("works", SAME_USER, "P5 limit the runner: prlimit", "P5 slow the runner down: setpriority", "P5 slow the runner down: ioprio_set",
     "P5 slow the runner down: sched_setaffinity"),
    ("EINPROGRESS EHOSTUNREACH ENETUNREACH ETIMEDOUT", UNPROVEN, "P7 an address of the world", "P7 the cloud's metadata address"),
)

SHARES = ["the node's kernel", "the runner's user id: commands are kept from it by Landlock",
          "a file on the node's disk that has no limit, /dev/termination-log"]
ANSWERS = {name: (answer, reason) for answer, reason, *names in _TABLE for name in names}
