#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A state directory of version 0.1 under this one: keys, approvals and the audit are what they were.

tests/data/state-0.1.json has the rows and files of such a directory, and the secrets of its keys, which are good for
nothing else. Its sandboxes ended with their daemon, as they do under every version."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

TOKEN = "the-operators-token"
with open(os.path.join(os.path.dirname(__file__), "../data/state-0.1.json")) as f:
    OLD = json.load(f)


def value_of(v):
    if isinstance(v, dict):
        return v["text"].encode() if "text" in v else bytes.fromhex(v["hex"])
    return v


def write_state(path):
    """In place of what is there: whose the files are to be is known from its directories."""
    for name in glob.glob(path + "/control/*") + glob.glob(path + "/warden/audit*"):
        if os.path.isfile(name):
            os.unlink(name)
    for name, text in OLD["files"].items():
        with open(os.path.join(path, name), "w") as f:
            f.write(text)
    for name, data in OLD["files_hex"].items():
        with open(os.path.join(path, name), "wb") as f:
            f.write(bytes.fromhex(data))
    db = sqlite3.connect(os.path.join(path, "control/state.db"))
    for sql in OLD["create"]:
        db.execute(sql)
    for table, rows in OLD["rows"].items():
        for row in rows:
            db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", list(map(value_of, row)))
    db.execute(f"PRAGMA user_version = {OLD['user_version']}")
    db.commit()
    db.close()
    owner = os.stat(path + "/control")
    for name in glob.glob(path + "/control/*"):
        os.chown(name, owner.st_uid, owner.st_gid)
    os.chmod(path + "/warden/audit.key", 0o600)


def rows_of(table):
    return {key: json.loads(value_of(body)) for key, body in OLD["rows"][table]}


def renew_approvals(path):
    """As if the daemon had been stopped a moment after it was asked."""
    db = sqlite3.connect(os.path.join(path, "control/state.db"))
    for key, row in rows_of("approval").items():
        db.execute("UPDATE approval SET body = ? WHERE key = ?", (json.dumps(dict(row, expires=int(time.time()) + 3600)).encode(), key))
    db.commit()
    db.close()


def auth(name):
    return {"Authorization": "Bearer " + (TOKEN if name is None else OLD["secrets"][name])}


class Old(Daemon):
    def __init__(self, *flags):
        super().__init__("-auth-token", TOKEN, *flags)
        self.start().stop()
        write_state(self.state)
        policy = os.path.join(self.dir, "policy.yaml")
        with open(policy, "wb") as f:
            f.write(bytes.fromhex(OLD["files_hex"]["control/policy.last"]))
        self.flags += ["--policy-file", policy]


@test("keys of version 0.1: the same names, roles and quotas; a revoked one stays revoked")
def test_keys_of_version_0_1_the_same_names():
    with Old() as d:
        listed = {k["id"]: k for k in d.get("/v1/keys", headers=auth(None)).json["keys"]}
        for id, row in rows_of("api_key").items():
            equal((listed[id]["name"], listed[id]["roles"], listed[id]["active"]),
                  (row["name"], row["roles"], row["revoked_ns"] == 0))
            a = d.get("/v1/identity", headers=auth(row["name"]))
            equal(a.status, 401 if row["revoked_ns"] else 200, f"{row['name']}: {a}")
            if not row["revoked_ns"]:
                equal((a.json["key"], a.json["roles"]), (id, row["roles"]))
        made = [d.post("/v1/sandboxes", {}, headers=auth("quota")).status for _ in range(3)]
        equal(made, [201, 201, 429], "its quota of two sandboxes holds")


@test("approvals of version 0.1 are on record; a grant of it is for no call of this one, which asks anew")
def test_approvals_of_version_0_1_are_on_record():
    old = Old()
    renew_approvals(old.state)
    with old as d:
        rows = rows_of("approval")
        listed = {a["id"]: a for a in d.get("/v1/approvals", headers=auth("appr")).json["approvals"]}
        equal(set(listed), set(rows))
        statuses = [a["status"] for a in listed.values()]
        check({"used", "rejected", "approved"} <= set(statuses), statuses)
        check(all(s in ("used", "rejected", "expired", "void", "pending", "approved") for s in statuses), statuses)
        for id, a in listed.items():
            call = {"command": a["argv"]}
            ran = d.post("/v1/run", call, headers=dict(auth("agent"), **{"X-Mas-Approval-Id": id}))
            equal(ran.status, 403, f"{a}: {ran}")
            if a["status"] == "approved":
                check("is void now: it was asked for by version 0.1" in ran.json["error"]["message"], ran)
        again = d.post("/v1/run", {"command": ["touch", "/workspace/g"]}, headers=auth("agent"))
        equal(again.status, 202, again)
        a = d.post(f"/v1/approvals/{again.json['approval_id']}/approve", {}, headers=auth("appr"))
        equal(a.status, 200, a)
        ran = d.post("/v1/run", {"command": ["touch", "/workspace/g"]},
                     headers=dict(auth("agent"), **{"X-Mas-Approval-Id": again.json["approval_id"]}))
        equal((ran.status, ran.json.get("exit_code")), (200, 0), ran)


@test("the audit of version 0.1 goes on: every record is the same, and the whole of it is genuine")
def test_the_audit_of_version_0_1_goes_on():
    d = Old().start()
    lines = d.get("/v1/audit?limit=1000", headers=auth("audi")).body.decode().splitlines()
    records = {r["seq"]: r for r in map(json.loads, lines)}
    for seq, digest, body in OLD["rows"]["audit"]:
        equal(records[seq]["hash"], value_of(digest).hex(), f"record {seq}")
        for name, value in json.loads(value_of(body)).items():
            equal(records[seq][name], value, f"{name} of record {seq}")
    check(max(records) > max(r[0] for r in OLD["rows"]["audit"]), "this version's own follow")
    d.stop()
    p = subprocess.run([SBX, "audit", "verify", "--state-dir", d.state], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(p.returncode == 0 and p.stdout.startswith("genuine: records 1 to "), p.stdout)
    d.clear()


main()
