# SPDX-License-Identifier: Apache-2.0
"""A daemon with a policy file that a test may replace, and its audit."""
import hashlib
import signal

from masd import *


def write(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


class Guarded(Daemon):
    """A daemon with a policy file that a test may replace."""

    def __init__(self, text, *flags, **kw):
        self.place = tempfile.mkdtemp(prefix="mas-policy-")
        self.policy = os.path.join(self.place, "policy.yaml")
        write(self.policy, text)
        super().__init__("--policy-file", self.policy, *flags, **kw)

    def revision(self):
        p = self.get("/v1/status").json["policy"]
        return p and p["revision"]

    def replace(self, text):
        """Another policy, read at once: by itself the daemon waits until the file has settled."""
        before = self.revision()
        write(self.policy, text)
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.revision() != before, "the new policy is loaded")

    def records(self, **filters):
        query = "&".join(f"{k}={v}" for k, v in filters.items())
        return [json.loads(x) for x in self.get("/v1/audit?limit=1000&" + query).body.splitlines()]

    def count(self, kind):
        return len(self.records(kind=kind))

    def __exit__(self, *exc):
        super().__exit__(*exc)
        shutil.rmtree(self.place, ignore_errors=True)
