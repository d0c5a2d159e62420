"""Daemons of an ordinary user: from a copy of the programs that anybody can read, and, if asked, where
the kernel makes no namespaces."""
import atexit
import os
import shutil
import tempfile

import masd

STRANGER = 64997  # a number without a name, and so without a range of ids
NO_NAMESPACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "no-namespaces.py")


def copy_programs():
    path = tempfile.mkdtemp(prefix="mas-copy-")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    for program in ("mas-sandboxd", "mas-toolrunner", "mas-tool-net"):
        shutil.copy(os.path.join(masd.BUILD, program), path)
    return os.path.join(path, "mas-sandboxd")


PROGRAM = copy_programs()
AS_STRANGER = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--inh-caps=-all"]


class UserDaemon(masd.Daemon):
    """Of a user without a range of ids, where the kernel makes no namespaces."""

    def __init__(self, *flags, **how):
        super().__init__(*flags, **how)
        self.command = [NO_NAMESPACES] + AS_STRANGER + [PROGRAM]
        os.chown(self.dir, STRANGER, STRANGER)
