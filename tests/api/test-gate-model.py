#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random policies about paths, random links and random file operations, against a model that looks at the place where each
of them happens at the moment when it runs. The directory is the host's, so that the model sees all of it and can change it
between any two calls. `MODEL_SEED=n MODEL_ROUNDS=n` for another or a longer walk."""
import io
import os
import random
import re
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from guarded import *

SEED = int(os.environ.get("MODEL_SEED", "13"))
ROUNDS = int(os.environ.get("MODEL_ROUNDS", "12"))
CALLS = 60  # of a round, under one policy
TREE = 12  # of them in one tree, which loses what is removed
TOP = "/mnt/host"
VERDICTS = ("allow", "ask", "deny")


class Policy:
    def __init__(self, rng):
        self.rules = []
        for _ in range(rng.randint(1, 4)):
            pattern = rng.choice([TOP + "/a/**", TOP + "/b/**", TOP + "/a/b/**", TOP + "/*/c/**", TOP + "/a/f", TOP + "/**/g", TOP + "/c/*", "**/b/f"])
            self.rules.append((rng.choice(["deny", "ask"]), rng.choice(["path", "read", "write"]), pattern))
        self.unknown = rng.choice(["deny", "ask"])

    def text(self):
        lines = ["version: 1", "default: allow", f"unknown: {self.unknown}", "rules:", "  - {id: all, verdict: allow, command: '*'}"]
        lines += [f'  - {{id: r{i}, verdict: {v}, {kind}: "{p}"}}' for i, (v, kind, p) in enumerate(self.rules)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def matches(pattern, path):
        text = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        if pattern.endswith("/**"):
            text = text[:-3] + "(/.*)?"
        return re.fullmatch(text, path, re.S)

    def verdict(self, path, write):
        found = [v for v, kind, p in self.rules if kind in ("path", "write" if write else "read") and self.matches(p, path)]
        return max(found, key=VERDICTS.index, default="allow")


class Tree:
    """The host's directory: every file has a content of its own, so that its bytes say where they are from."""

    def __init__(self, root, rng):
        self.root, self.rng, self.n = root, rng, 0

    def at(self, path):
        return self.root + path[len(TOP):]

    def fresh(self):
        self.n += 1
        return f"<content {self.n}>"

    def make(self):
        for name in os.listdir(self.root):
            path = os.path.join(self.root, name)
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        for d in ("a", "b", "c", "d", "a/b", "a/c", "d/c", "d/b", "d/e"):
            os.mkdir(os.path.join(self.root, d))
            os.chmod(os.path.join(self.root, d), 0o777)
            for f in "fgh":
                if self.rng.random() < 0.6:
                    with open(os.path.join(self.root, d, f), "w") as out:
                        out.write(self.fresh())
                    os.chmod(os.path.join(self.root, d, f), 0o666)
        for _ in range(5):
            self.relink()

    def relink(self):
        place = self.rng.choice(["", "/d", "/d/e", "/c"]) + "/l" + self.rng.choice("123")
        target = self.rng.choice(["a", "b", "c", "a/b", "a/f", "a/b/g", "c/new", "nowhere/x", "d/e", "d"])
        path = self.root + place
        if not os.path.isdir(os.path.dirname(path)):
            return
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        if not os.path.lexists(path):
            absolute = TOP + "/" + target
            os.symlink(absolute if self.rng.random() < 0.5 else os.path.relpath(absolute, os.path.dirname(TOP + place)), path)

    def turn(self, path):
        """The first link on the way leads elsewhere from now on."""
        names = path[len(TOP) + 1:].split("/")
        for i in range(len(names)):
            link = self.root + "/" + "/".join(names[:i + 1])
            if os.path.islink(link):
                os.unlink(link)
                os.symlink(TOP + "/" + self.rng.choice(["a", "b", "a/b", "d/e"]), link)
                return

    def resolve(self, path, follow, depth=0):
        """Where it leads, or None where the kernel does not get that far."""
        done = ""
        parts = [p for p in path.split("/") if p not in ("", ".")]
        for i, part in enumerate(parts):
            if part == "..":
                if done.startswith(TOP) and not os.path.isdir(self.at(done)):
                    return None
                done = done.rpartition("/")[0]
                continue
            done += "/" + part
            if not done.startswith(TOP + "/") or not os.path.islink(self.at(done)) or (i == len(parts) - 1 and not follow):
                continue
            if depth > 30:
                return None
            to = os.readlink(self.at(done))
            to = to if to.startswith("/") else done.rpartition("/")[0] + "/" + to
            return self.resolve("/".join([to, *parts[i + 1:]]), follow, depth + 1)
        return done or "/"

    def snapshot(self):
        """{place: what is there}"""
        out = {}
        for dir, dirs, files in os.walk(self.root):
            here = TOP + dir[len(self.root):]
            for name in dirs + files:
                path = os.path.join(dir, name)
                if os.path.islink(path):
                    out[f"{here}/{name}"] = "-> " + os.readlink(path)
                elif os.path.isdir(path):
                    out[f"{here}/{name}"] = "dir"
                else:
                    with open(path) as f:
                        out[f"{here}/{name}"] = f.read()
        return out


def pack(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            t.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


class Walk:
    def __init__(self, d, host, rng):
        self.d, self.rng, self.tree = d, rng, Tree(host, rng)
        self.seen = {}

    def path(self):
        if self.rng.random() < 0.3:
            return self.rng.choice(sorted(self.tree.snapshot()))
        parts = [self.rng.choice(["a", "b", "c", "d", "d/e", "d/b", "l1", "l2", "l3", "d/l1", "d/e/l2", "c/l3"])]
        if self.rng.random() < 0.7:
            parts.append(self.rng.choice(["f", "g", "h", "new", "b", "c", "l1", "l2", ".."]))
        if parts[-1] == "..":
            parts.append(self.rng.choice("fgabcd"))
        return TOP + "/" + "/".join(parts)

    def call(self):
        """(what it is, how to do it, [(path, follows, write)], is it all that it touches)"""
        p, q, files = self.path(), self.path(), self.box.path + "/files"
        new = self.tree.fresh()
        kind = self.rng.choice(["read", "write", "append", "stat", "list", "mkdir", "remove", "move", "tar-read", "tar-write", "files", "one-shot"])
        go = lambda method, url, body=None: lambda **kw: self.d.request(method, url, body, **kw)
        with_file = {"command": ["true"], "files": [{"path": p, "content": new}]}
        if kind == "read":
            return kind, go("GET", f"{files}/content?path={p}"), [(p, True, False)], True
        if kind in ("write", "append"):
            return kind, go("PUT", f"{files}/content?path={p}" + ("&append=true" if kind == "append" else ""), new.encode()), [(p, True, True)], True
        if kind == "stat":
            return kind, go("GET", f"{files}/stat?path={p}"), [(p, False, False)], True
        if kind == "list":
            return kind, go("GET", f"{files}?path={p}"), [(p, True, False)], True
        if kind == "mkdir":
            return kind, go("POST", f"{files}/mkdir", {"path": p, "parents": True}), [(p, True, True)], True
        if kind == "remove":
            tree = self.rng.random() < 0.5
            return kind, go("DELETE", f"{files}?path={p}" + ("&recursive=true" if tree else "")), [(p, False, True)], not tree
        if kind == "move":
            return kind, go("POST", f"{files}/move", {"from": p, "to": q}), [(p, False, False), (p, False, True), (q, False, True)], False
        if kind == "tar-read":
            return kind, go("GET", f"{files}/tar?path={p}"), [(p, True, False)], False
        if kind == "tar-write":
            names = [self.rng.choice(["f", "b/f", "c/new", "e/h", "new"]) for _ in range(2)]
            root = self.tree.resolve(p, True)
            inside = [(f"{root}/{n}", False, True) for n in names] if root else []
            return kind, go("PUT", f"{files}/tar?path={p}", pack([(n, self.tree.fresh()) for n in names])), [(p, True, True), *inside], True
        if kind == "files":
            return kind, go("POST", self.box.path + "/exec", with_file), [(p, True, True)], True
        return kind, go("POST", "/v1/run", dict(with_file, mounts=self.mounts)), [(p, True, True)], True

    def verdict(self, paths):
        """What the rules say of all that is named and of where that leads, now; None where it leads nowhere."""
        verdicts = []
        for path, follow, write in paths:
            place = self.tree.resolve(path, follow)
            if place is None:
                return None
            verdicts += [self.policy.verdict(os.path.normpath(path), write), self.policy.verdict(place, write)]
        return max(verdicts, key=VERDICTS.index)

    def check_effects(self, what, before, answer):
        """Nothing changed, and nothing was told, where the policy denies it or asks first."""
        after = self.tree.snapshot()
        for place in before.keys() | after.keys():
            if before.get(place) == after.get(place):
                continue
            # a directory that had to be made on the way is no more than its name
            if after.get(place) == "dir" and any(p.startswith(place + "/") and before.get(p) != after.get(p) for p in after):
                continue
            equal(self.policy.verdict(place, True), "allow", f"{what} changed {place}: {answer}")
        body = answer.body.decode(errors="replace") if answer.status < 300 else ""
        for place, content in before.items():
            if content.startswith("<") and self.policy.verdict(place, False) != "allow":
                told = content in body
                moved = any(content == c and p != place and before.get(p) != c for p, c in after.items())
                check(not told and not moved, f"{what} {'told' if told else 'moved'} what is in {place}: {answer}")

    def step(self):
        if self.rng.random() < 0.3:
            self.tree.relink()
        kind, do, paths, exact = self.call()
        what = f"seed {SEED}: {kind} {paths} under {self.policy.rules}, unknown {self.policy.unknown}"
        before, want = self.tree.snapshot(), self.verdict(paths)
        a = do()
        refused = a.status == 403 and a.json["error"]["code"] == "policy_denied"
        told = "deny" if refused else "ask" if a.status == 202 else "allow" if a.status < 300 else "failed"
        self.seen[told] = self.seen.get(told, 0) + 1
        os.environ.get("MODEL_SHOW") and print(f"# {kind} {paths[0][0]}: {a.status} {a.body[:200]}")
        self.check_effects(what, before, a)
        if want in ("deny", "ask"):
            check(told != "allow" and (told != "ask" or want == "ask"), f"{what} must {want}: {a}")
        if want == "allow" and exact:
            check(told in ("allow", "failed"), f"{what} is allowed: {a}")
        if told == "ask" and "approval_id" in a.json:
            self.use(what, do, paths, a.json["approval_id"], exact)

    def use(self, what, do, paths, id, exact):
        """A grant is for the places of the moment when it was asked for."""
        places = {self.tree.resolve(p, f) for p, f, _ in paths}
        if self.rng.random() < 0.5:
            self.d.post(f"/v1/approvals/{id}/reject")
            return
        self.d.post(f"/v1/approvals/{id}/approve")
        if self.rng.random() < 0.6:
            self.tree.turn(paths[0][0])
        before = self.tree.snapshot()
        now = {self.tree.resolve(p, f) for p, f, _ in paths}
        b = do(headers={"X-Mas-Approval-Id": id})
        if now == places or not exact:
            return
        check(b.status >= 400, f"{what}: approved for {places}, and now it leads to {now}: {b}")
        equal(self.tree.snapshot(), before, f"{what}: refused, and yet something changed")
        self.seen["void"] = self.seen.get("void", 0) + 1


@test(f"what runs is what the policy says of the place, at that moment (seed {SEED})")
def test_what_runs_is_what_the_policy_says_of_the_place():
    rng = random.Random(SEED)
    host = tempfile.mkdtemp(prefix="mas-model-")
    os.chmod(host, 0o777)
    policy = Policy(rng)
    try:
        with Guarded(policy.text(), "--mounts-allow", host) as d:
            w = Walk(d, host, rng)
            w.mounts = [{"source": host, "target": TOP, "read_only": False}]
            w.box = d.sandbox(mounts=w.mounts)
            for round in range(ROUNDS):
                if round:
                    policy = Policy(rng)
                    write(d.policy, policy.text())
                    d.post("/v1/policy/reload")
                    wait_for(lambda: d.revision() == hashlib.sha256(policy.text().encode()).hexdigest(), "the policy of this round")
                w.policy = policy
                for i in range(CALLS):
                    if i % TREE == 0:
                        w.tree.make()
                    w.step()
            print(f"# seed {SEED}, {ROUNDS} rounds of {CALLS} calls: {w.seen}")
            for told in ("allow", "ask", "deny", "void"):
                check(w.seen.get(told), f"the walk saw '{told}' too: {w.seen}")
    finally:
        shutil.rmtree(host, ignore_errors=True)


main()
