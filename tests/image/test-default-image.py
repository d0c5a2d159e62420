# SPDX-License-Identifier: Apache-2.0
"""The default image: the same bytes twice, small, and a shell that works in it."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from archives import Place, sha  # noqa: E402
from masd import Skip, check, equal, main, test  # noqa: E402

SCRIPT = os.path.join(os.path.dirname(__file__), "../../scripts/default-image.sh")


@test("the same packages give the same bytes, under 32 MiB, without setuid; programs run in it")
def test_the_same_packages_give_the_same_bytes_under_32():
    with Place() as p:
        for name in ("one.tar", "two.tar"):
            subprocess.run([SCRIPT, p.path(name)], check=True)
        data = open(p.path("one.tar"), "rb").read()
        equal(sha(data), sha(open(p.path("two.tar"), "rb").read()))
        check(len(data) < 32 << 20, f"{len(data)} bytes")
        code, said = p.run("rootfs-tar", p.path("one.tar"))
        equal((code, said.get("skipped")), (0, 0), str(said))
        root = p.rootfs(said["digest"])
        found = subprocess.run(["find", root, "-perm", "/6000"], stdout=subprocess.PIPE, check=True).stdout
        equal(found, b"")
        if os.geteuid() != 0:
            raise Skip("needs root for chroot")
        line = ("id -un && ls -d / && echo x | sed s/x/y/ | grep y && awk 'BEGIN { print 6 * 7 }' && "
                "vi --help 2>&1 | head -1 | cut -c 1-7 && find /etc/passwd")
        out = subprocess.run(["chroot", "--userspec=1000:1000", root, "/bin/sh", "-c", line],
                             stdout=subprocess.PIPE, check=True).stdout.decode()
        equal(out.split("\n"), ["sandbox", "/", "y", "42", "BusyBox", "/etc/passwd", ""])


if __name__ == "__main__":
    main()
