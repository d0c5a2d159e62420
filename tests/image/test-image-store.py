# SPDX-License-Identifier: Apache-2.0
"""The store when things go wrong: killed at any point, a full disk, several at once. An image is there
as a whole or not at all."""
import os
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from archives import Layout, Place, Tar, everybody, header, sha, snapshot  # noqa: E402
from masd import Skip, check, equal, main, test, wait_for  # noqa: E402

SMALL = Tar().dir("etc").add("etc/a", data="content").link("l", "etc").bytes()


def whole(p):
    """Every image that the store lists is complete."""
    code, images = p.run("list")
    equal(code, 0)
    equal(sorted(i["digest"] for i in images), p.images(), "what is listed is what is there")
    for image in images:
        equal(open(p.rootfs(image["digest"]) + "/etc/a").read(), "content")
    return images


@test("kill -9 at every step of a commit")
def test_kill_9_at_every_step_of_a_commit():
    for step, there in (("probe.unpacked", 0), ("image.before-sync", 0), ("image.before-rename", 0),
                        ("image.after-rename", 1)):
        with Place() as p:
            code, _ = p.run("rootfs-tar", p.file("t", SMALL), env={"MAS_FAULT": step})
            equal(code, -signal.SIGKILL, step)
            equal(len(whole(p)), there, step)
            equal(p.run("sweep")[0], 0)
            equal(p.leftovers(), [], "swept")
            equal(p.run("rootfs-tar", p.path("t"))[0], 0, "the next one works")
            equal(len(whole(p)), 1)


@test("kill -9 in the middle of a removal")
def test_kill_9_in_the_middle_of_a_removal():
    with Place() as p:
        digest = p.run("as=name", "rootfs-tar", p.file("t", SMALL))[1]["digest"]
        equal(p.run("rm", digest, env={"MAS_FAULT": "image.removed"})[0], -signal.SIGKILL)
        equal(whole(p), [])
        equal(p.run("resolve", "name")[0], 1, "its name is gone too")
        equal(p.run("sweep")[0], 0)
        equal(p.leftovers(), [])


@test("kill -9 in the middle of unpacking: nothing is visible, all is swept")
def test_kill_9_in_the_middle_of_unpacking_nothing():
    for who in everybody():
        with Place(who) as p:
            process = p.start("rootfs-tar", "-", stdin=subprocess.PIPE)
            process.stdin.write(b"".join(header(f"d{i}/f{i}") for i in range(2000)))
            process.stdin.flush()

            def under_way():
                return any("d100" in dirs for _, dirs, _ in os.walk(p.store))
            wait_for(under_way, "entries are being unpacked")
            process.kill()
            process.wait()
            process.stdin.close()
            wait_for(lambda: p.run("sweep")[0] == 0 and p.leftovers() == [], "swept")
            equal(whole(p), [])


@test("a full disk in the middle leaves the cache whole")
def test_a_full_disk_in_the_middle_leaves_the_cache_whole():
    if os.geteuid() != 0:
        raise Skip("needs root to mount a small tmpfs")
    for who in everybody():
        with Place(who) as p:
            options = "size=4m" + (",uid=64216,gid=64216" if who != "root" else "")
            if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", p.store]).returncode:
                raise Skip("no tmpfs can be mounted here")
            try:
                first = p.run("as=kept", "rootfs-tar", p.file("t", SMALL))[1]
                before = snapshot(p.rootfs(first["digest"]))
                big = Tar().dir("etc").add("etc/a", data="content")
                for i in range(10):
                    big.add(f"big{i}", data=bytes([i]) * (1 << 20))
                layout = Layout([SMALL, big.bytes()], "plain").write(p.path("l"))
                for args in (("rootfs-tar", p.file("big", big.bytes())), ("layout", layout)):
                    code, said = p.run(*args)
                    equal((code, said["error"]), (1, "no_space"), str(said))
                    check("big" in said["message"], f"the entry is named: {said['message']}")
                    equal(p.leftovers(), [], "nothing half-done stays")
                    equal(len(whole(p)), 1)
                equal(snapshot(p.rootfs(first["digest"])), before, "the other image is as it was")
                equal(p.run("resolve", "kept")[1], first["digest"])
            finally:
                subprocess.run(["umount", p.store], check=True)


@test("work that is ended from outside leaves nothing")
def test_work_that_is_ended_from_outside_leaves_nothing():
    with Place() as p:
        layout = Layout([SMALL, SMALL]).write(p.path("l"))
        for report in range(1, 5):
            code, said = p.run(f"cancel={report}", "layout", layout)
            equal(code, 1, f"ended at report {report}")
            check("was ended" in said["message"], str(said))
            equal((p.images(), p.leftovers()), ([], []))


@test("several at once: one image, no leftovers")
def test_several_at_once_one_image_no_leftovers():
    with Place() as p:
        path = p.file("t", SMALL)
        running = [p.start("as=same", "rootfs-tar", path) for _ in range(6)]
        for process in running:
            process.communicate()
        equal([x.returncode for x in running], [0] * 6)
        equal([i["digest"] for i in whole(p)], [sha(SMALL)])
        equal(p.leftovers(), [])


@test("garbage: the least recently used first, what is used never")
def test_garbage_the_least_recently_used_first():
    with Place() as p:
        digests = []
        for i in range(4):
            data = Tar().dir("etc").add("etc/a", data="content").add("fill", data=bytes(40960) + bytes([i])).bytes()
            digests.append(p.run(f"as=n{i}", "rootfs-tar", p.file("t", data))[1]["digest"])
        for age, digest in enumerate(digests):
            os.utime(f"{p.store}/store/{digest}/image.json", (1000 + age, 1000 + age))
        size = whole(p)[0]["size_bytes"]
        check(size >= 40960, f"{size} bytes")
        equal(p.run("victims", 0)[1], digests)
        equal(p.run("victims", 2 * size)[1], digests[:2])
        equal(p.run("victims", 2 * size, digests[0])[1], digests[1:3])
        equal(p.run("victims", 0, *digests)[1], [])
        equal(p.run("victims", 10 * size)[1], [])
        equal(p.run("touch", digests[0])[0], 0)
        equal(p.run("victims", 3 * size)[1], [digests[1]])
        equal([i["digest"] for i in p.run("list")[1]][0], digests[0], "the list starts with the last used")


@test("a digest that is named in a path's place is no digest")
def test_a_digest_that_is_named_in_a_path_place():
    with Place() as p:
        digest = p.run("rootfs-tar", p.file("t", SMALL))[1]["digest"]
        for text in ("../outside", "..", "", digest + "/rootfs", digest.upper(), digest[:-1], "sha256:" + digest):
            for verb in ("rm", "touch"):
                equal(p.run(verb, text)[0], 1, f"{verb} {text}")
        for name in ("..", ".", "../../outside/secret", "a/b:c@d", "\u00e9", "x" * 200):
            equal(p.run("name", name, digest)[0], 0, name)
            equal(p.run("resolve", name)[1], digest)
        equal(p.run("name", "x" * 300, digest)[0], 1, "too long")
        equal(p.run("name", "", digest)[0], 1, "empty")
        equal(p.run("name", "x", "0" * 64)[0], 1, "not there")
        equal(p.run("names", digest)[1], sorted([".", "..", "../../outside/secret", "a/b:c@d", "x" * 200, "\u00e9"]))
        check(p.untouched(), "nothing outside is touched")
        equal(p.run("rm", digest)[0], 0)
        equal(os.listdir(p.store + "/names"), [], "names go with the image")


@test("512 directories deep with 600 descriptors: unpacked, whited out, copied, removed")
def test_512_directories_deep_with_600_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    deep = Tar().dir("etc").add("etc/a", data="content").add("d/" * 500 + "f", data="x").bytes()
    layout = Layout([deep, Tar().add("d/.wh..wh..opq").bytes()])
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (600, hard))
        with Place() as p:
            equal(p.run("depth=512", "layout", layout.write(p.path("l")))[0], 0)
            root = p.rootfs(p.images()[0])
            equal(os.listdir(root + "/d"), [])
            digest = p.run("depth=512", "rootfs-tar", p.file("t", deep))[1]["digest"]
            equal(p.run("depth=512", "dir", p.rootfs(digest))[0], 0)
            equal(len(whole(p)), 3)
            for digest in p.images():
                equal(p.run("rm", digest)[0], 0)
            equal((p.images(), p.leftovers()), ([], []))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@test("a last use is the image's alone: time passes, nothing else changes")
def test_a_last_use_is_the_image_alone_time_passes():
    with Place() as p:
        digest = p.run("rootfs-tar", p.file("t", SMALL))[1]["digest"]
        before = snapshot(p.rootfs(digest))
        time.sleep(0.02)
        p.run("touch", digest)
        p.run("rootfs-tar", p.path("t"))
        equal(snapshot(p.rootfs(digest)), before)


if __name__ == "__main__":
    main()
