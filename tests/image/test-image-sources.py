# SPDX-License-Identifier: Apache-2.0
"""Where images come from: OCI layouts, docker-archives, skopeo's directories, tars and directories;
whole ones unpack, and what is tampered with is refused with its name."""
import gzip
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from archives import ARCH, PACKERS, Layout, Place, Tar, everybody, sha, write  # noqa: E402
from masd import check, equal, main, test  # noqa: E402

LOWER = Tar().dir("etc").add("etc/a", data="lower").add("etc/b", data="lower").dir("opt/old").add("opt/old/x").bytes()
UPPER = Tar().add("etc/.wh.a").add("etc/c", data="upper").dir("opt").add("opt/.wh..wh..opq").add("opt/new").bytes()
CONFIG = {"Env": ["PATH=/bin", "A=b=c"], "WorkingDir": "/srv//app/../web/", "User": "1000", "Entrypoint": ["/bin/sh"],
          "Cmd": ["-c", "true"]}


def tree(root):
    return sorted(os.path.relpath(os.path.join(at, n), root) for at, dirs, files in os.walk(root) for n in dirs + files)


def good(p, *args):
    code, said = p.run(*args)
    equal(code, 0, str(said))
    equal(p.leftovers(), [])
    return said


def bad(p, *args, says=(), error="invalid_request"):
    code, said = p.run(*args)
    equal(code, 1, str(said))
    equal(said["error"], error, said["message"])
    for words in says:
        check(words in said["message"], f"'{words}' in: {said['message']}")
    equal((p.images(), p.leftovers()), ([], []), "nothing is in the store")
    return said


WANT = ["etc", "etc/b", "etc/c", "opt", "opt/new"]

for _packer in PACKERS:
    if _packer == "xz":
        continue

    @test(f"layout: {_packer}, whiteouts and configuration")
    def test_layout_whiteouts_and_configuration(packer=_packer):
        with Place() as p:
            layout = Layout([LOWER, UPPER], packer, CONFIG)
            digest = layout.finish()["digest"][7:]
            said = good(p, "as=my/image:tag", "layout", layout.write(p.path("l")))
            equal(said["digest"], digest, "the manifest's digest")
            equal(tree(p.rootfs(digest)), WANT)
            equal((said["env"], said["workdir"], said["user"], said["cmd"]),
                  (CONFIG["Env"], "/srv/web", "1000", ["/bin/sh", "-c", "true"]))
            equal(said["layers"], [sha(LOWER), sha(UPPER)])
            for name in ("my/image:tag", digest, "sha256:" + digest):
                equal(p.run("resolve", name), (0, digest))


@test("layout: nested indexes, the manifest for this machine")
def test_layout_nested_indexes_the_manifest():
    with Place() as p:
        layout = Layout([LOWER])
        mine = layout.finish()
        other = dict(layout.json({"schemaVersion": 2, "other": 1}, mine["mediaType"]))
        kind = "application/vnd.oci.image.index.v1+json"
        nested = layout.json({"schemaVersion": 2, "manifests": [
            dict(other, platform={"os": "windows", "architecture": ARCH}),
            dict(other, platform={"os": "linux", "architecture": "mips"}),
            dict(mine, platform={"os": "linux", "architecture": ARCH}),
            dict(other, platform={"os": "unknown", "architecture": "unknown"})]}, kind)
        layout.index = {"schemaVersion": 2, "manifests": [
            dict(nested, annotations={"org.opencontainers.image.ref.name": "one"}),
            dict(other, annotations={"org.opencontainers.image.ref.name": "two"})]}
        layout.write(p.path("l"))
        equal(p.run("layout", p.path("l"), "one")[1]["digest"], mine["digest"][7:])
        equal(p.run("layout", p.path("l"), nested["digest"])[1]["digest"], mine["digest"][7:])
        for ref, words in (("three", "three"), (None, "name one")):
            code, said = p.run("layout", p.path("l"), *([ref] if ref else []))
            equal(code, 1)
            check(words in said["message"], said["message"])


@test("layout: for another machine")
def test_layout_for_another_machine():
    with Place() as p:
        bad(p, "layout", Layout([LOWER], arch="mips").write(p.path("l")), says=["linux/mips"], error="unsupported")


@test("layout: an index in itself is not followed for ever")
def test_layout_an_index_in_itself_is_not_followed():
    with Place() as p:
        layout = Layout([LOWER])
        kind = "application/vnd.oci.image.index.v1+json"
        inner = layout.finish()
        for _ in range(6):
            inner = layout.json({"schemaVersion": 2, "manifests": [inner]}, kind)
        layout.index = {"schemaVersion": 2, "manifests": [inner]}
        bad(p, "layout", layout.write(p.path("l")), says=["nested"])


def blob_path(p, digest):
    return p.path(f"l/blobs/sha256/{digest}")


def tamper(path, at=-20):
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        data[at] ^= 1
        f.seek(0)
        f.write(data)


@test("layout: tampered layer, configuration, manifest: each is named, nothing is unpacked")
def test_layout_tampered_layer_configuration_manifest():
    for which in ("layer", "config", "manifest"):
        with Place() as p:
            layout = Layout([LOWER, UPPER])
            manifest = layout.finish()
            layout.write(p.path("l"))
            digest = {"layer": layout.manifest["layers"][1]["digest"], "config": layout.manifest["config"]["digest"],
                      "manifest": manifest["digest"]}[which][7:]
            tamper(blob_path(p, digest))
            bad(p, "layout", p.path("l"), says=[digest, "tampered"])


@test("layout: a layer that is changed after it was verified")
def test_layout_a_layer_that_is_changed():
    evil = Tar().dir("etc").add("etc/a", data="other").bytes()
    same = gzip.compress(LOWER, 1, mtime=5)
    for data, words in ((gzip.compress(evil), "digest"), (same, "digest"), (b"", "layer 1")):
        with Place() as p:
            layout = Layout([LOWER])
            path = layout.write(p.path("l"))
            blob = blob_path(p, layout.manifest["layers"][0]["digest"][7:])
            bad(p, f"swap={blob}", f"with={p.file('evil', data)}", "layout", path, says=[words])


@test("layout: a blob that is cut, missing, a link, a fifo, a directory")
def test_layout_a_blob_that_is_cut_missing_a_link_a_fifo():
    def cut(path):
        os.truncate(path, os.path.getsize(path) - 1)

    def link(path):
        os.rename(path, path + ".x")
        os.symlink(path + ".x", path)

    def fifo(path):
        os.unlink(path)
        os.mkfifo(path)

    def directory(path):
        os.unlink(path)
        os.mkdir(path)

    for change, error in ((cut, "invalid_request"), (os.unlink, "not_found"), (link, "invalid_request"),
                          (fifo, "invalid_request"), (directory, "invalid_request")):
        with Place() as p:
            layout = Layout([LOWER])
            layout.write(p.path("l"))
            digest = layout.manifest["layers"][0]["digest"][7:]
            change(blob_path(p, digest))
            bad(p, "layout", p.path("l"), says=[digest], error=error)


@test("layout: a tar that is not what the configuration says")
def test_layout_a_tar_that_is_not_what_the_configuration():
    with Place() as p:
        layout = Layout([LOWER])
        layout.config["rootfs"]["diff_ids"] = ["sha256:" + sha(UPPER)]
        bad(p, "layout", layout.write(p.path("l")), says=["layer 1", "diff id", sha(UPPER)])
    with Place() as p:
        layout = Layout([LOWER])
        layout.config["rootfs"]["diff_ids"] = []
        bad(p, "layout", layout.write(p.path("l")), says=["0 diff ids for 1 layers"])


@test("layout: a malicious layer is named with its number and entry")
def test_layout_a_malicious_layer_is_named():
    with Place() as p:
        evil = Tar().link("door", p.outside).add("door/secret", data="x").bytes()
        bad(p, "layout", Layout([LOWER, evil]).write(p.path("l")), says=["layer 2", "door/secret"])
        check(p.untouched(), "nothing outside is touched")


@test("layout: limits hold over all layers together")
def test_layout_limits_hold_over_all_layers_together():
    layers = [Tar().add(f"f{i}", data=bytes(30000)).bytes() for i in range(4)]
    for limit, words in (("bytes=100000", "images_max_unpacked_bytes"), ("files=3", "images_max_files")):
        with Place() as p:
            bad(p, limit, "layout", Layout(layers).write(p.path("l")), says=["layer 4", "f3", words], error="too_large")
    with Place() as p:
        bad(p, "layers=3", "layout", Layout(layers).write(p.path("l")), says=["images_max_layers"], error="too_large")
    with Place() as p:
        bad(p, "layer_bytes=50", "layout", Layout(layers).write(p.path("l")), says=["images_max_layer_bytes"],
            error="too_large")


@test("layout: kinds that are none of ours are refused by name")
def test_layout_kinds_that_are_none_of_ours_are_refused():
    with Place() as p:
        layout = Layout([LOWER])
        layout.manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"
        bad(p, "layout", layout.write(p.path("l")), says=["encrypted"], error="unsupported")
    with Place() as p:
        layout = Layout([LOWER])
        layout.manifest["mediaType"] = "application/vnd.example.chart"
        bad(p, "layout", layout.write(p.path("l")), says=["chart"], error="unsupported")
    with Place() as p:
        layout = Layout([LOWER])
        layout.manifest["layers"][0]["digest"] = "sha512:" + "0" * 128
        bad(p, "layout", layout.write(p.path("l")), says=["sha512"], error="unsupported")


@test("layout: JSON that is none, too deep, too large, or of other types")
def test_layout_json_that_is_none_too_deep_too_large():
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    cases = [(b"", "empty"), (b"[]", "object"), (deep, "nested"), (b'{"manifests":{}}', "manifests"),
             (b'{"manifests":[1]}', "descriptor"), (b'{"manifests":[{"digest":1}]}', "digest"),
             (b'{"manifests":[{"digest":"sha256:../../../../etc/passwd","size":1}]}', "not a sha256"),
             (b'{"manifests":[{"digest":"sha256:%s","size":-5}]}' % (b"0" * 64), "size"),
             (b'{"manifests":[]}', "no image"), (b'{"a":1,"a":2}', "duplicate")]
    for data, words in cases:
        with Place() as p:
            layout = p.path("l")
            Layout([LOWER]).write(layout)
            write(layout + "/index.json", data)
            code, said = p.run("layout", layout)
            equal(code, 1)
            check(words in said["message"], f"{words}: {said['message']}")
    with Place() as p:
        layout = p.path("l")
        Layout([LOWER]).write(layout)
        write(layout + "/index.json", b'{"x":"' + b"y" * (1 << 20) + b'"}')
        bad(p, "layout", layout, says=["index.json", "larger"], error="too_large")


@test("layout: configuration values that no process could have")
def test_layout_configuration_values_that_no_process():
    for config, words in (({"Env": ["novalue"]}, "novalue"), ({"Env": "A=b"}, "Env"), ({"Env": [1]}, "Env"),
                          ({"WorkingDir": 5}, "WorkingDir"), ({"Cmd": ["x"] * 5000}, "Cmd")):
        with Place() as p:
            bad(p, "layout", Layout([LOWER], config=config).write(p.path("l")), says=[words])
    for text, want in (("/", "/"), ("app", "/app"), ("../../x", "/x"), ("/a/./b//", "/a/b"), ("..", "/"), ("", "")):
        with Place() as p:
            equal(good(p, "layout", Layout([LOWER], config={"WorkingDir": text}).write(p.path("l")))["workdir"], want)


@test("documents of two kinds at once: one digest would be two images")
def test_documents_of_two_kinds_at_once_one_digest_would():
    for change in (lambda l: l.manifest.update(rootfs={}), lambda l: l.manifest.update(manifests=[]),
                   lambda l: l.config.update(layers=[]), lambda l: l.config.update(schemaVersion=2)):
        with Place() as p:
            layout = Layout([LOWER])
            change(layout)
            bad(p, "layout", layout.write(p.path("l")), says=["two kinds"])
    with Place() as p:
        layout = Layout([LOWER])
        layout.index = {"manifests": [layout.finish()], "layers": []}
        bad(p, "layout", layout.write(p.path("l")), says=["two kinds"])
    with Place() as p:  # a configuration of Docker's that is a manifest for others
        config = json.dumps({"rootfs": {"diff_ids": ["sha256:" + sha(LOWER)]}, "layers": [], "schemaVersion": 2})
        archive = (Tar().add("manifest.json", data='[{"Config":"c","Layers":["l"]}]').add("c", data=config)
                   .add("l", data=LOWER).bytes())
        bad(p, "docker-archive", p.file("a", archive), says=["two kinds"])


@test("skopeo's directory: the digest is the manifest's as it is")
def test_skopeo_directory_the_digest_is_the_manifest():
    with Place() as p:
        layout = Layout([LOWER, UPPER])
        manifest = layout.finish()
        os.mkdir(p.path("d"))
        for name, data in layout.blobs.items():
            write(p.path("d/") + name, data)
        write(p.path("d/manifest.json"), layout.blobs[manifest["digest"][7:]])
        equal(good(p, "skopeo", p.path("d"))["digest"], manifest["digest"][7:])
    with Place() as p:
        os.mkdir(p.path("d"))
        for name, data in layout.blobs.items():
            write(p.path("d/") + name, data)
        write(p.path("d/manifest.json"), layout.blobs[manifest["digest"][7:]])
        digest = layout.manifest["layers"][0]["digest"][7:]
        tamper(p.path("d/" + digest))
        bad(p, "skopeo", p.path("d"), says=[digest, "tampered"])


def docker_archive(layers, config=None, style="old", change=None, order=None):
    """`docker save` as it was (a directory a layer) or is (blobs)."""
    config = json.dumps({"architecture": ARCH, "os": "linux", "config": config or {},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(x) for x in layers]}}).encode()
    files = {}
    if style == "old":
        names = [f"{i:064x}/layer.tar" for i in range(len(layers))]
        config_name = sha(config) + ".json"
    else:
        names = ["blobs/sha256/" + sha(x) for x in layers]
        config_name = "blobs/sha256/" + sha(config)
    files.update(zip(names, layers))
    files[config_name] = config
    files["manifest.json"] = json.dumps([{"Config": config_name, "RepoTags": ["a:1"], "Layers": names}]).encode()
    if change:
        change(files, names, config_name)
    tar = Tar()
    for name in order or files:
        data = files[name]
        if isinstance(data, str):
            tar.link(name, data)
        else:
            tar.add(name, data=data)
    return tar.bytes(), sha(config)


@test("docker-archive: old and new, packed and not, the manifest first or last")
def test_docker_archive_old_and_new_packed():
    for style in ("old", "new"):
        for packer in PACKERS.values():
            with Place() as p:
                data, digest = docker_archive([LOWER, UPPER], CONFIG, style)
                said = good(p, "docker-archive", p.file("a", packer(data)))
                equal((said["digest"], said["workdir"]), (digest, "/srv/web"), "the configuration's digest")
                equal(tree(p.rootfs(digest)), WANT)


@test("docker-archive: layers that are links to others, and packed layers")
def test_docker_archive_layers_that_are_links_to_others():
    def same(files, names, config):
        files[names[1]] = "../" + names[0]

    with Place() as p:
        data, digest = docker_archive([LOWER, LOWER], change=same)
        good(p, "docker-archive", p.file("a", data))

    def pack(files, names, config):
        files[names[0]] = gzip.compress(files[names[0]])

    with Place() as p:
        good(p, "docker-archive", p.file("a", docker_archive([LOWER], change=pack)[0]))


@test("docker-archive: tampered, missing, doubled, leading out")
def test_docker_archive_tampered_missing_doubled_leading():
    def layer(files, names, config):
        files[names[1]] = files[names[1]].replace(b"upper", b"UPPER")

    def settings(files, names, config):
        files[config] = files[config].replace(b"linux", b"linuX")

    def missing(files, names, config):
        del files[names[0]]

    def out(files, names, config):
        files[names[0]] = "../../../../../etc/passwd"

    def loop(files, names, config):
        files[names[0]] = "../" + names[0]

    for style in ("old", "new"):
        for change, words in ((layer, "tampered"), (settings, "tampered"), (missing, "No such file"), (out, "'..'"),
                              (loop, "No such file")):
            if style == "new" and change in (out, loop):
                continue
            with Place() as p:
                bad(p, "docker-archive", p.file("a", docker_archive([LOWER, UPPER], style=style, change=change)[0]),
                    says=[words])
    data, _ = docker_archive([LOWER])
    twice = data[:-1024] + Tar().add("manifest.json", data="[]").bytes()
    for archive, words in ((twice, "twice"), (Tar().add("../evil", data="x").bytes(), "../evil"),
                           (Tar().add("dev", "3").bytes(), "dev"), (Tar().bytes(), "manifest.json"),
                           (Tar().add("manifest.json", data="{}").bytes(), "no image"),
                           (Tar().add("manifest.json", data="[{}]").bytes(), "configuration"),
                           (Tar().add("manifest.json", data='[{"Config":"../../etc/passwd"}]').bytes(), "'..'"),
                           (Tar().add("manifest.json", data='[{"Config":"/etc/passwd"}]').bytes(), "absolute")):
        with Place() as p:
            bad(p, "docker-archive", p.file("a", archive), says=[words])
            check(p.untouched(), "nothing outside is touched")


@test("docker-archive: one of several, by its tag")
def test_docker_archive_one_of_several_by_its_tag():
    def several(files, names, config):
        one = json.loads(files["manifest.json"])[0]
        files["manifest.json"] = json.dumps([one, dict(one, RepoTags=["b:2"], Layers=["x"])]).encode()

    data, digest = docker_archive([LOWER], change=several)
    with Place() as p:
        path = p.file("a", data)
        check("name one" in p.run("docker-archive", path)[1]["message"], "none named")
        check("c:3" in p.run("docker-archive", path, "c:3")[1]["message"], "not there")
        equal(p.run("docker-archive", path, "a:1")[1]["digest"], digest)


def fill(path):
    os.makedirs(path + "/usr/bin")
    os.makedirs(path + "/dev")
    write(path + "/usr/bin/tool", b"#!/bin/sh\n")
    os.chmod(path + "/usr/bin/tool", 0o4755)
    os.link(path + "/usr/bin/tool", path + "/usr/bin/again")
    os.symlink("/etc/passwd", path + "/usr/link")
    os.symlink("nowhere", path + "/dangling")
    os.mkfifo(path + "/pipe")
    os.mkdir(path + "/tmp")
    os.chmod(path + "/tmp", 0o1777)


@test("directory: a copy that follows nothing, the same digest twice")
def test_directory_a_copy_that_follows_nothing_the_same():
    for who in everybody():
        with Place(who) as p:
            fill(p.path("one"))
            fill(p.path("two"))
            said = good(p, "dir", p.path("one"))
            root = p.rootfs(said["digest"])
            equal(os.readlink(root + "/usr/link"), "/etc/passwd")
            equal(os.lstat(root + "/usr/bin/tool").st_mode & 0o7777, 0o755)
            equal(os.lstat(root + "/tmp").st_mode & 0o7777, 0o1777)
            equal(os.lstat(root + "/usr/bin/tool").st_ino, os.lstat(root + "/usr/bin/again").st_ino)
            equal((sorted(os.listdir(root)), said["skipped"]), (["dangling", "dev", "tmp", "usr"], 1))
            equal(good(p, "dir", p.path("two"))["digest"], said["digest"], "the same again")
            write(p.path("two/usr/bin/new"), b"")
            check(good(p, "dir", p.path("two"))["digest"] != said["digest"], "a change is another image")


@test("directory: limits, and devices outside of /dev")
def test_directory_limits_and_devices_outside_of_dev():
    with Place() as p:
        fill(p.path("one"))
        bad(p, "files=3", "dir", p.path("one"), says=["images_max_files"], error="too_large")
        bad(p, "bytes=5", "dir", p.path("one"), says=["images_max_unpacked_bytes"], error="too_large")
        os.makedirs(p.path("one/" + "d/" * 140))
        bad(p, "dir", p.path("one"), says=["images_max_depth"], error="too_large")
    if os.geteuid() == 0:
        with Place() as p:
            fill(p.path("one"))
            os.mknod(p.path("one/dev/null"), 0o20666, os.makedev(1, 3))
            equal(good(p, "dir", p.path("one"))["skipped"], 2)
            os.mknod(p.path("one/usr/null"), 0o20666, os.makedev(1, 3))
            code, said = p.run("dir", p.path("one"))
            check(code == 1 and "usr/null" in said["message"], str(said))


@test("whiteouts: lower layers only, in any order, and what is opaque once")
def test_whiteouts_lower_layers_only_in_any_order():
    cases = [
        # what is in the same layer stays, before and after the marker
        (Tar().dir("d").add("d/new").add("d/.wh..wh..opq").add("d/newer"), ["d", "d/new", "d/newer", "e", "e/x"]),
        (Tar().add("d/sub/new").add("d/.wh..wh..opq"), ["d", "d/sub", "d/sub/new", "e", "e/x"]),
        (Tar().add("d/.wh..wh..opq").add("d/.wh..wh..opq"), ["d", "e", "e/x"]),
        (Tar().add(".wh.d").add("d/one"), ["d", "d/one", "e", "e/x"]),
        (Tar().add("d/one").add(".wh.d"), ["d", "d/one", "e", "e/x"]),
        (Tar().add("d/.wh.old").add("d/old", data="new"), ["d", "d/old", "d/sub", "d/sub/deep", "e", "e/x"]),
        (Tar().add("d/old", data="new").add("d/.wh.old"), ["d", "d/old", "d/sub", "d/sub/deep", "e", "e/x"]),
        (Tar().add("none/.wh.x").add("d/.wh.none"), ["d", "d/old", "d/sub", "d/sub/deep", "e", "e/x"]),
        (Tar().add("h", "1", link="d/old").add("d/.wh.old"), ["d", "d/sub", "d/sub/deep", "e", "e/x", "h"]),
        (Tar().dir(".wh..wh.plnk").add(".wh..wh.plnk/1.2", data="x").add(".wh..wh.aufs"),
         ["d", "d/old", "d/sub", "d/sub/deep", "e", "e/x"]),
        (Tar().add("d", data="file"), ["d", "e", "e/x"]),
        (Tar().link("d", "e").add("d/.wh.x"), ["d", "e"]),
    ]
    lower = Tar().dir("d").add("d/old").add("d/sub/deep").add("e/x").bytes()
    for who in everybody():
        for number, (upper, want) in enumerate(cases):
            with Place(who) as p:
                code, said = p.run("layout", Layout([lower, upper.bytes()]).write(p.path("l")))
                equal(code, 0, f"{number}: {said}")
                equal(tree(p.rootfs(said["digest"])), want, f"{number}, {who}")


@test("real archives: what tar itself writes comes out the same")
def test_real_archives_what_tar_itself_writes_comes_out():
    with Place() as p:
        fill(p.path("src"))
        with open(p.path("src/sparse"), "wb") as f:
            f.truncate(1 << 20)
            f.seek(500000)
            f.write(b"middle")
        os.makedirs(p.path("src/" + "long-name-" * 20))
        for flags in (["--format=gnu"], ["--format=pax"], ["--format=pax", "-S"], ["--format=gnu", "-S"], ["--format=ustar"]):
            if flags == ["--format=ustar"]:
                os.rmdir(p.path("src/" + "long-name-" * 20))
            subprocess.run(["tar", *flags, "-C", p.path("src"), "-cf", p.path("t.tar"), "."], check=True)
            root = p.rootfs(good(p, "rootfs-tar", p.path("t.tar"))["digest"])
            differ = subprocess.run(["diff", "-r", "--no-dereference", "-x", "pipe", p.path("src"), root])
            equal(differ.returncode, 0, str(flags))


if __name__ == "__main__":
    main()
