# SPDX-License-Identifier: Apache-2.0
"""What nginx serves: a repository for git, an index for pip and a registry for npm, each with one thing, all plain files."""
import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import zipfile


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def make_git(www):
    """One that is fetched as files."""
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@allowed.test", GIT_COMMITTER_NAME="a",
               GIT_COMMITTER_EMAIL="a@allowed.test")
    with tempfile.TemporaryDirectory() as work:
        write(f"{work}/file", "from the server\n")
        for args in (["init", "-q", "-b", "main"], ["add", "file"], ["commit", "-q", "-m", "one"],
                     ["clone", "-q", "--bare", work, f"{www}/git/one.git"]):
            subprocess.run(["git", *args], cwd=work, env=env, check=True)
        subprocess.run(["git", "update-server-info"], cwd=f"{www}/git/one.git", env=env, check=True)


def make_pip(www):
    wheel, info = io.BytesIO(), "tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("tiny.py", "WHAT = 'tiny of pip'\n")
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    name = "tiny-1.0-py3-none-any.whl"
    write(f"{www}/pip/tiny/{name}", wheel.getvalue())
    digest = hashlib.sha256(wheel.getvalue()).hexdigest()
    write(f"{www}/pip/tiny/index.html", f'<!DOCTYPE html><html><body><a href="{name}#sha256={digest}">{name}</a></body></html>\n')


def make_npm(www):
    package = {"name": "tiny", "version": "1.0.0", "main": "index.js"}
    files = {"package/package.json": json.dumps(package), "package/index.js": "module.exports = 'tiny of npm';\n"}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as t:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            t.addfile(entry, io.BytesIO(text.encode()))
    write(f"{www}/npm/archives/tiny-1.0.0.tgz", archive.getvalue())
    digest = base64.b64encode(hashlib.sha512(archive.getvalue()).digest()).decode()
    # Whoever asks by TLS is led to plain HTTP by this; npm keeps its registry's scheme and host.
    package["dist"] = {"tarball": "http://allowed.test/npm/archives/tiny-1.0.0.tgz", "integrity": f"sha512-{digest}"}
    write(f"{www}/npm/tiny", json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}}))


def make_files(www):
    os.makedirs(www, exist_ok=True)
    with open(f"{www}/big", "wb") as f:
        f.truncate(8 << 20)
    make_git(www)
    make_pip(www)
    make_npm(www)
