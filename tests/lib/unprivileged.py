# SPDX-License-Identifier: Apache-2.0
"""Daemons of an ordinary user: from a copy of the programs that anybody can read, and, if asked, where
the kernel makes no namespaces."""
import atexit
import os
import pwd
import shutil
import subprocess
import tempfile

import masd

STRANGER = 64997  # a number without a name, and so without a range of ids
NO_NAMESPACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "no-namespaces.py")


def copy_programs():
    path = tempfile.mkdtemp(prefix="mas-copy-")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    for program in ("mas-sandboxd", "mas-warden", "mas-toolrunner", "mas-tool-net"):
        shutil.copy(os.path.join(masd.BUILD, program), path)
    return os.path.join(path, "mas-sandboxd")


PROGRAM = copy_programs()
AS_STRANGER = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--inh-caps=-all"]


USER = "mas-test"


def make_user():
    """The one user that the tests add, with a range of subordinate ids."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", USER], check=True)
    for file, flag in (("/etc/subuid", "--add-subuids"), ("/etc/subgid", "--add-subgids")):
        with open(file, "a+") as f:
            f.seek(0)
            has_range = any(line.startswith(USER + ":") for line in f)
        if not has_range:
            subprocess.run(["usermod", flag, "1000000-1065535", USER], check=True)
    return pwd.getpwnam(USER).pw_uid


class UserDaemon(masd.Daemon):
    """Of a user without a range of ids, where the kernel makes no namespaces."""

    def __init__(self, *flags, **how):
        super().__init__(*flags, **how)
        self.command = [NO_NAMESPACES] + AS_STRANGER + [PROGRAM]
        os.chown(self.dir, STRANGER, STRANGER)
