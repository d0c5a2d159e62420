# SPDX-License-Identifier: Apache-2.0
"""Malicious layers: each is refused with its entry named, or does no harm; nothing outside is touched
and nothing half-done stays. Over root, an ordinary user and the keeper's user namespace."""
import os
import random
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from archives import PACKERS, Place, Tar, everybody, header, pax_record, sha  # noqa: E402
from masd import check, equal, main, test  # noqa: E402

GIB = 1 << 30

# name, what makes the tar (given the place), the entry that the message names, a word of why
REFUSED = []
# name, what makes the tar, what must hold of the root file system then
HARMLESS = []


def refused(name, entry, why, limits=()):
    def add(fn):
        REFUSED.append((name, fn, entry, why, limits))
        return fn
    return add


def harmless(name):
    def add(fn):
        HARMLESS.append((name, fn))
        return fn
    return add


def simple(name, entry, why, make, limits=()):
    refused(name, entry, why, limits)(make)


simple("an absolute path", "/etc/evil", "absolute", lambda p: Tar().add("/etc/evil", data="x"))
simple("an absolute path out of here", "outside/secret", "absolute",
       lambda p: Tar().add("a", pax={"path": p.outside + "/secret"}, data="x"))
simple("..", "../outside/secret", "'..'", lambda p: Tar().add("../../../../outside/secret", data="x"))
simple(".. in the middle", "a/../../b", "'..'", lambda p: Tar().dir("a").add("a/../../b", data="x"))
simple(".. at the end", "a/..", "'..'", lambda p: Tar().dir("a").dir("a/.."))
simple(".. alone", "..", "'..'", lambda p: Tar().dir("..", mode=0o777))
simple(".. in a pax path", "../evil", "'..'", lambda p: Tar().add("good", pax={"path": "../evil"}))
simple(".. in a GNU long name", "/../../evil", "'..'",
       lambda p: Tar().add("././@LongLink", "L", data=b"d/" * 60 + b"../../evil\0").add("short", data="x"))
simple("a file as the root", ".", "root", lambda p: Tar().add(".", data="x"))
simple("a link as the root", ".", "root", lambda p: Tar().link(".", p.outside))
simple("an absolute link, then a file through it", "door/secret", "out of the image",
       lambda p: Tar().link("door", p.outside).add("door/secret", data="x"))
simple("a relative link out, then a file through it", "door/secret", "out of the image",
       lambda p: Tar().link("door", "../../../../../outside").add("door/secret", data="x"))
simple("a link to a link out, then a file", "b/secret", "out of the image",
       lambda p: Tar().link("a", p.outside).link("b", "a").add("b/secret", data="x"))
simple("a link to /, then a file", "r/etc/evil", "out of the image",
       lambda p: Tar().link("r", "/").add("r/etc/evil", data="x"))
simple("a link out, then a directory in it", "door/new", "out of the image",
       lambda p: Tar().link("door", p.outside).dir("door/new", mode=0o777))
simple("a link out, then a link in it", "door/evil", "out of the image",
       lambda p: Tar().link("door", p.outside).link("door/evil", "x"))
simple("a link out, then a whiteout in it", "door/.wh.secret", "out of the image",
       lambda p: Tar().link("door", p.outside).add("door/.wh.secret"))
simple("a link out, then an opaque marker in it", "door/.wh..wh..opq", "out of the image",
       lambda p: Tar().link("door", p.outside).add("door/.wh..wh..opq"))
simple("a link onto itself, then a file through it", "loop/x", "link",
       lambda p: Tar().link("loop", "loop").add("loop/x"))
simple("a dangling link, then a file through it", "gone/x", "link",
       lambda p: Tar().link("gone", "nowhere").add("gone/x"))
simple("a hard link to an absolute path", "hard", "absolute",
       lambda p: Tar().add("hard", "1", link=p.outside + "/secret"))
simple("a hard link to ..", "hard", "'..'", lambda p: Tar().add("hard", "1", link="../../../outside/secret"))
simple("a hard link through a link out", "hard", "out of the image",
       lambda p: Tar().link("door", p.outside).add("hard", "1", link="door/secret"))
simple("a hard link in a place out", "door/hard", "out of the image",
       lambda p: Tar().add("f", data="x").link("door", p.outside).add("door/hard", "1", link="f"))
simple("a hard link to nothing", "hard", "No such file", lambda p: Tar().add("hard", "1", link="missing"))
simple("a hard link to a directory", "hard", "directory", lambda p: Tar().dir("d").add("hard", "1", link="d"))
simple("a hard link to the root", "hard", "directory", lambda p: Tar().add("hard", "1", link="."))
simple("a hard link that replaces its own target", "'d'", "replaces",
       lambda p: Tar().add("d/f", data="x").add("d", "1", link="d/f"))
simple("a hard link as the root", ".", "root", lambda p: Tar().add("f").add(".", "1", link="f"))
simple("a character device", "null", "device", lambda p: Tar().add("null", "3", mode=0o666))
simple("a block device", "etc/disk", "device", lambda p: Tar().add("etc/disk", "4", mode=0o666))
simple("an overlay whiteout as a device", "etc/passwd", "device", lambda p: Tar().add("etc/passwd", "3"))
simple("a device at /dev itself", "dev", "device", lambda p: Tar().add("dev", "3"))
simple("a device in devil", "devil/null", "device", lambda p: Tar().add("devil/null", "3"))
simple("a whiteout of /", ".wh.", "whiteout", lambda p: Tar().add(".wh."))
simple("a whiteout of . ", ".wh..", "whiteout", lambda p: Tar().add(".wh.."))
simple("a whiteout of ..", ".wh...", "whiteout", lambda p: Tar().add(".wh..."))
simple("a whiteout of .. below", "a/.wh...", "whiteout", lambda p: Tar().dir("a").add("a/.wh..."))
simple("an opaque root", ".wh..wh..opq", "whiteout of /", lambda p: Tar().add("./.wh..wh..opq"))
simple("an entry below a whiteout", ".wh.a/b", "below a whiteout", lambda p: Tar().add(".wh.a/b", data="x"))
simple("a file below a file", "f/below", "not a directory", lambda p: Tar().add("f").add("f/below"))
simple("an empty link", "nothing", "link", lambda p: Tar().link("nothing", ""))
simple("a component of 300 bytes", "nnnn", "255", lambda p: Tar().add("a", pax={"path": "n" * 300}))
simple("a path of 8 KiB", "d/d/d", "images_max_path_bytes", lambda p: Tar().add("a", pax={"path": "d/" * 4096 + "f"}))
simple("a path 200 deep", "d/d/d", "images_max_depth", lambda p: Tar().add("a", pax={"path": "d/" * 200 + "f"}))
simple("a long link target", "far", "images_max_path_bytes",
       lambda p: Tar().link("far", "t" * 5000))
simple("a size of 8 exabytes", "", "overflow", lambda p: Tar().add("huge", size=(1 << 63) - 1))
simple("a size of 4 GiB and no content", "huge", "", lambda p: Tar().add("huge", size=4 * GIB, data="x"))
simple("a pax size of terabytes", "huge", "images_max_unpacked_bytes",
       lambda p: Tar().add("huge", pax={"size": str(1 << 42)}))
simple("a negative pax size", "", "", lambda p: Tar().add("huge", pax={"size": "-1"}, size=512, data=b"x" * 512))
simple("1.5 KiB of sparse file for 4 GiB", "holes", "images_max_ratio",
       lambda p: Tar().raw(header("holes", "S", sparse=4 * GIB)))
simple("a sparse file of terabytes", "holes", "images_max_unpacked_bytes",
       lambda p: Tar().raw(header("holes", "S", sparse=1 << 42)))
simple("more files than allowed", "file50", "images_max_files",
       lambda p: many(Tar(), 60), ["files=50"])
simple("more parents than allowed", "a/b/c/d/e", "images_max_files",
       lambda p: Tar().add("a/b/c/d/e/f/g"), ["files=4"])
simple("the same file again and again", "again", "images_max_unpacked_bytes",
       lambda p: repeated(Tar(), 40), ["bytes=100000"])
simple("a larger file than allowed", "big", "images_max_unpacked_bytes",
       lambda p: Tar().add("big", data=bytes(70000)), ["bytes=65536"])
simple("a larger layer than allowed", "", "images_max_layer_bytes",
       lambda p: Tar().add("big", data=bytes(1 << 20)), ["layer_bytes=300000"])
simple("megabytes of extended headers", "", "headers",
       lambda p: Tar().raw((header("pax", "g", size=1 << 19) + pax_record("comment", b"c" * ((1 << 19) - 16))) * 40)
       .add("f"))
simple("a sparse map of megabytes", "", "", lambda p: Tar().add(
    "GNUSparseFile.0/m", data=b"2000000\n" + b"0\n0\n" * 2000000,
    pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "map",
         "GNU.sparse.realsize": "0"}))
simple("text", "", "tar", lambda p: Tar().raw(b"this is not a tar archive at all\n" * 100))
simple("cut in the middle of a file", "cut", "", lambda p: Tar().raw(header("cut", size=100000) + bytes(5000)))
simple("a checksum that is wrong", "", "tar",
       lambda p: Tar().add("good").raw(header("bad")[:150] + b"777" + header("bad")[153:]))


def many(tar, n):
    for i in range(n):
        tar.add(f"file{i}")
    return tar


def repeated(tar, n):
    for _ in range(n):
        tar.add("again", data=bytes(4000))
    return tar


@harmless("a file over a link replaces the link")
def test_a_file_over_a_link_replaces_the_link(p, root=None):
    if root is None:
        return Tar().link("f", p.outside + "/secret").add("f", data="mine")
    equal(open(root + "/f").read(), "mine")
    check(stat.S_ISREG(os.lstat(root + "/f").st_mode), "it is a file")


@harmless("a directory over a link replaces the link")
def test_a_directory_over_a_link_replaces_the_link(p, root=None):
    if root is None:
        return Tar().link("d", p.outside).dir("d", mode=0o777).add("d/secret", data="mine")
    equal(open(root + "/d/secret").read(), "mine")


@harmless("a file over a directory, a directory over a file")
def test_a_file_over_a_directory_a_directory_over_a_file(p, root=None):
    if root is None:
        return (Tar().add("x/y/z", data="1").link("x/l", p.outside).add("x", data="file")
                .add("f", data="2").dir("f").add("f/g", data="3"))
    equal(open(root + "/x").read(), "file")
    equal(open(root + "/f/g").read(), "3")


@harmless("duplicate entries: the last counts")
def test_duplicate_entries_the_last_counts(p, root=None):
    if root is None:
        return Tar().add("f", data="one", mode=0o600).add("f", data="two").add("g", "1", link="f").add("f", data="three")
    equal((open(root + "/f").read(), open(root + "/g").read()), ("three", "two"))


@harmless("a hard link to a link is the link")
def test_a_hard_link_to_a_link_is_the_link(p, root=None):
    if root is None:
        return Tar().link("l", p.outside + "/secret").add("h", "1", link="l")
    equal(os.readlink(root + "/h"), p.outside + "/secret")


@harmless("a hard link onto itself")
def test_a_hard_link_onto_itself(p, root=None):
    if root is None:
        return Tar().add("f", data="x").add("f", "1", link="f").add("g", "1", link="./f")
    equal(open(root + "/g").read(), "x")


@harmless("setuid, setgid and sticky files")
def test_setuid_setgid_and_sticky_files(p, root=None):
    if root is None:
        return Tar().add("su", mode=0o6755).add("st", mode=0o1644).dir("sg", mode=0o2775).dir("tmp", mode=0o1777)
    modes = [os.lstat(f"{root}/{n}").st_mode & 0o7777 for n in ("su", "st", "sg", "tmp")]
    equal(modes, [0o755, 0o644, 0o775, 0o1777])


@harmless("extended attributes: only user.* that nothing obeys")
def test_extended_attributes_only_user_that_nothing_obeys(p, root=None):
    if root is None:
        pax = {f"SCHILY.xattr.{k}": v for k, v in (
            ("user.kept", "v"), ("user.overlay.redirect", "/etc"), ("user.overlay.opaque", "y"),
            ("user.containers.override_stat", "0:0:4755"), ("user.fuseoverlayfs.opaque", "y"),
            ("security.capability", b"\1\0\0\2\0\4\0\0" + bytes(12)), ("trusted.overlay.opaque", "y"),
            ("system.posix_acl_access", b"\2\0\0\0"), ("security.selinux", "x"))}
        return Tar().add("f", data="x", pax=pax).dir("d", pax=pax)
    for name in ("f", "d"):
        check(set(os.listxattr(f"{root}/{name}")) - {"security.selinux"} <= {"user.kept"}, "attributes")


@harmless("devices below /dev, fifos and sockets are left out")
def test_devices_below_dev_fifos_and_sockets_are_left_out(p, root=None):
    if root is None:
        return Tar().dir("dev").add("dev/null", "3").add("dev/sda", "4").add("run/pipe", "6").add("ok", data="x")
    equal(sorted(os.listdir(root)), ["dev", "ok"])
    equal(os.listdir(root + "/dev"), [])


@harmless("links inside are followed, as bin -> usr/bin is")
def test_links_inside_are_followed_as_bin_usr_bin(p, root=None):
    if root is None:
        return (Tar().dir("usr/bin").link("bin", "usr/bin").add("bin/tool", data="x").link("a", "usr/../usr")
                .add("a/deep/er", data="y").link("usr/up", "../usr/bin").add("usr/up/other", data="z"))
    equal(sorted(os.listdir(root + "/usr/bin")), ["other", "tool"])
    equal(open(root + "/usr/deep/er").read(), "y")


@harmless("depth through links is counted as it is")
def test_depth_through_links_is_counted(p, root=None):
    if root is None:
        return Tar().dir("d/" * 100).link("short", "d/" * 99 + "d").add("short/a/b/c", data="x")
    check(os.path.isfile(root + "/" + "d/" * 100 + "a/b/c"), "it is where the link leads")


simple("deeper through a link than allowed", "short", "images_max_depth",
       lambda p: Tar().dir("d/" * 100).link("short", "d/" * 99 + "d").add("short/" + "e/" * 80 + "f")
       .add("short/" + "e/" * 80 + "g/h/i"))


@harmless("names of any bytes")
def test_names_of_any_bytes(p, root=None):
    if root is None:
        return (Tar().add("a", pax={"path": "caf\u00e9/\u65e5\u672c"}, data="utf").add(b"lat\xe9n", data="latin")
                .add("nl\n\\x", data="nl"))
    equal(open((root + "/caf\u00e9/\u65e5\u672c").encode()).read(), "utf")
    equal(open(root.encode() + b"/lat\xe9n").read(), "latin")
    equal(open(root + "/nl\n\\x").read(), "nl")


@harmless("times that no file system has, modes of nothing, owners of any number")
def test_times_that_no_file_system_has_modes_of_nothing(p, root=None):
    if root is None:
        return (Tar().add("t", mtime=1 << 62, mode=0, uid=0xffffffff, gid=1 << 40).dir("closed", mode=0)
                .add("closed/in", data="x").add("u", uid=1000, gid=1000).add("n", uid=65534, gid=65534)
                .add("o", uid=1001, gid=5))
    ids = [os.lstat(root + "/" + n).st_uid for n in ("t", "u", "n", "o")]
    want = {"root": [0, 1000, 65534, 0], "userns": [64216, 64217, 64218, 64216], "user": [64216] * 4}[p.who]
    equal(ids, want if os.geteuid() == 0 else [os.geteuid()] * 4)
    check(os.path.exists(root + "/closed/in"), "a directory of mode 0 has its file")


@harmless("a sparse file with little in it")
def test_a_sparse_file_with_little(p, root=None):
    if root is None:
        return Tar().raw(header("holes", "S", sparse=1 << 20)).add("after", data="x")
    equal(os.lstat(root + "/holes").st_size, 1 << 20)
    equal(open(root + "/after").read(), "x")


@harmless("a root of mode 0700 is everybody's")
def test_a_root_of_mode_0700_is_everybodys(p, root=None):
    if root is None:
        return Tar().dir("./", mode=0o700).add("f")
    equal(os.lstat(root).st_mode & 0o777, 0o755)


@harmless("an empty archive")
def test_an_empty_archive(p, root=None):
    if root is None:
        return Tar()
    equal(os.listdir(root), [])


def run_refused(who, make, entry, why, limits):
    with Place(who) as p:
        path = p.file("evil.tar", make(p).bytes())
        code, said = p.run(*limits, "rootfs-tar", path)
        equal(code, 1, f"refused: {said}")
        check(said["error"] in ("invalid_request", "too_large"), f"an error of the image's: {said}")
        check(entry in said["message"], f"'{entry}' is named: {said['message']}")
        check(why in said["message"], f"'{why}' is said: {said['message']}")
        equal((p.images(), p.leftovers()), ([], []), "the store is empty")
        check(p.untouched(), "nothing outside is touched")


def run_harmless(who, make):
    with Place(who) as p:
        path = p.file("good.tar", make(p).bytes())
        code, said = p.run("rootfs-tar", path)
        equal(code, 0, f"unpacked: {said}")
        make(p, p.rootfs(said["digest"]))
        equal((p.images(), p.leftovers()), ([sha(open(path, "rb").read())], []))
        check(p.untouched(), "nothing outside is touched")
        equal(p.run("rm", said["digest"])[0], 0, "removed")
        equal((p.images(), p.leftovers()), ([], []), "gone as a whole")


for _name, _make, _entry, _why, _limits in REFUSED:
    @test(f"refused: {_name}")
    def test_refused(make=_make, entry=_entry, why=_why, limits=_limits):
        for who in everybody():
            run_refused(who, make, entry, why, limits)

for _name, _make in HARMLESS:
    @test(f"harmless: {_name}")
    def test_harmless(make=_make):
        for who in everybody():
            run_harmless(who, make)


def bomb(packer):
    """A file of 4 GiB of zeros in pieces that are packed one by one."""
    pack = PACKERS[packer]
    return pack(header("bomb", size=4 * GIB)) + pack(bytes(64 << 20)) * 64


for _packer in ("gzip", "zstd", "xz"):
    @test(f"a bomb: {_packer} of 4 GiB of zeros")
    def test_a_bomb_of_4_gib_of_zeros(packer=_packer):
        data = bomb(packer)
        with Place() as p:
            code, said = p.run("rootfs-tar", p.file("bomb.tar", data))
            equal(code, 1, f"{len(data)} bytes are refused")
            check("'bomb'" in said["message"] and "images_max_ratio" in said["message"], said["message"])
            equal(p.leftovers(), [])


@test("a bomb: compression in compression is not taken off twice")
def test_a_bomb_compression_in_compression_is_not_taken():
    inner = PACKERS["gzip"](Tar().add("f", data="x").bytes())
    for outer in ("gzip", "zstd", "xz"):
        with Place() as p:
            code, said = p.run("rootfs-tar", p.file("twice", PACKERS[outer](inner)))
            equal(code, 1)
            check("tar" in said["message"], said["message"])
    small = PACKERS["gzip"](PACKERS["gzip"](bytes(256 << 20)))
    with Place() as p:
        check(len(small) < 42 << 10, "42 KiB")
        equal(p.run("rootfs-tar", p.file("42", small))[0], 1)


@test("a bomb: ten million entries are stopped at the limit")
def test_a_bomb_ten_million_entries_are_stopped():
    with Place() as p:
        process = p.start("files=20000", "rootfs-tar", "-", stdin=subprocess.PIPE)
        sent = 0
        try:
            for block in range(10000):
                names = range(block * 1000, block * 1000 + 1000)
                process.stdin.write(b"".join(header(f"e{i % 30000}") for i in names))
                sent += 1000
        except BrokenPipeError:
            pass
        check(sent < 100000, f"stopped after {sent} entries")
        process.stdin = None
        said = process.communicate()[0].decode()
        equal(process.returncode, 1)
        check("e20000" in said and "images_max_files" in said, said)
        equal(p.leftovers(), [])


@test("a bomb: headers without entries, for ever")
def test_a_bomb_headers_without_entries_for_ever():
    with Place() as p:
        process = p.start("rootfs-tar", "-", stdin=subprocess.PIPE)
        block = (header("g", "g", size=512) + b"12 comment=x\n".ljust(512, b"\0")) * 1000
        sent = 0
        try:
            while sent < 1 << 30:
                process.stdin.write(block)
                sent += len(block)
        except BrokenPipeError:
            pass
        check(sent < 64 << 20, f"stopped after {sent} bytes")
        process.stdin = None
        process.communicate()
        equal(process.returncode, 1)


@test("layers: what an upper one can do to a lower one's links")
def test_layers_what_an_upper_one_can_do_to_a_lower():
    with Place() as p:
        lower = p.file("lower", Tar().link("door", p.outside).dir("etc").bytes())
        for number, upper in enumerate((Tar().add("door/secret", data="x"), Tar().add("door/.wh.secret"),
                                        Tar().add("x", "1", link="door/secret"))):
            root = p.path(f"root{number}")
            os.mkdir(root)
            code, said = p.run("layers", root, lower, p.file("upper", upper.bytes()))
            equal(code, 1, str(said))
            check("out of the image" in said["message"], said["message"])
        root = p.path("root")
        os.mkdir(root)
        equal(p.run("layers", root, lower, p.file("upper", Tar().add(".wh.door").bytes()))[0], 0)
        equal(os.listdir(root), ["etc"], "the link itself can be whited out")
        check(p.untouched(), "nothing outside is touched")


@test("random bytes in good archives: an error or a tree, never a crash, nothing outside")
def test_random_bytes_in_good_archives_an_error_or_a_tree():
    chance = random.Random(int(os.environ.get("SEED", "7")))
    with Place("userns" if "userns" in everybody() else "root") as p:
        good = (Tar().dir("d", 0o755).add("d/f", data="x" * 700).link("l", p.outside).add("h", "1", link="d/f")
                .add("p", pax={"path": "long/" * 30 + "n", "SCHILY.xattr.user.a": "b"}, data="y").bytes())
        for number in range(40):
            data = bytearray(good)
            for _ in range(chance.randrange(1, 12)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            code, said = p.run("rootfs-tar", p.file("fuzz.tar", bytes(data)))
            check(code in (0, 1), f"number {number}: {code} {said}")
            equal(p.leftovers(), [])
        check(p.untouched(), "nothing outside is touched")


if __name__ == "__main__":
    main()
