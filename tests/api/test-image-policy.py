#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Policy rules about images: what they deny is neither fetched nor made nor run, by whatever name."""
import sys
import os

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../image"))
from guarded import *
from images import busybox
from mcp import Client
from registry import tar

PROGRAM = busybox()

HEAD = "version: 1\ndefault: allow\nrules:\n"
ONLY_OURS = HEAD + "  - {id: ours, verdict: deny, reason: not ours, image_except: ['registry.internal/*', good]}\n"
MARK = ["/bin/sh", "-c", "cat /etc/mark"]


def upload(d, name, mark, status=200):
    data = tar({"bin/sh": PROGRAM, "bin/cat": PROGRAM, "etc/mark": mark.encode()})
    a = d.put(f"/v1/images/tar?name={name}", data)
    equal(a.status, status, a)
    return a.json


def run(d, image):
    return d.post("/v1/run", {"command": MARK, "image": image})


def denied(a, rule):
    equal(a.status, 403, a)
    check(f"rule '{rule}'" in json.dumps(a.json), a)


@test("every image but some: denied before anything is asked of a registry, whoever asks for it how")
def test_every_image_but_some_denied_before_anything():
    with Guarded(ONLY_OURS, "-images-registries", "*") as d:
        for image in ("evil.example/x", "docker://evil.example/x:1", "Evil.Example/x", "docker.io/x",
                      "registry.internal.evil.example/x", "registry.internal:5000/x", "dir:/etc",
                      "sha256:" + "0" * 64, "evil.example/x@sha256:" + "0" * 64):
            denied(run(d, image), "ours")
            denied(d.post("/v1/sandboxes", {"image": image}), "ours")
            denied(d.post("/v1/images/pull", {"image": image}), "ours")
        equal(d.post("/sandboxes", {"id": "b", "image": "evil.example/x"}).status, 403)
        equal(os.listdir(d.state + "/images"), [])  # no keeper has ever been there
        refusals = d.records(kind="refusal")
        check(len(refusals) >= 27 and all(r["rule"] == "ours" and r["tool"] == "image" for r in refusals), refusals[-1])
        equal(d.run("true")["exit_code"], 0)  # the host's programs are no image


@test("names of the store: by name and digest, also for a sandbox that was there before the rule")
def test_names_of_the_store_by_name_and_digest_also():
    with Guarded(HEAD + "  - {id: x, verdict: ask, command: nothing}\n") as d:
        upload(d, "good", "good")
        bad = upload(d, "bad", "bad")["digest"]
        id = d.post("/v1/sandboxes", {"image": "bad"}).json["id"]
        equal(d.post(f"/v1/sandboxes/{id}/exec", {"command": MARK}).json["stdout"], "bad")
        d.replace(ONLY_OURS)
        equal(run(d, "good").json["stdout"], "good")
        for image in ("bad", bad, "sha256:" + bad):
            denied(run(d, image), "ours")
            denied(d.post("/v1/sandboxes", {"image": image}), "ours")
        denied(d.post(f"/v1/sandboxes/{id}/exec", {"command": MARK}), "ours")
        denied(d.get(f"/v1/sandboxes/{id}/files?path=/etc/mark"), "ours")
        d.replace(HEAD + "  - {id: named, verdict: deny, image: bad}\n")
        for image in ("bad", bad, "sha256:" + bad):  # its digest is no way around its name
            denied(run(d, image), "named")
        d.replace(HEAD + f"  - {{id: exact, verdict: deny, image: 'sha256:{bad}'}}\n")
        upload(d, "innocent", "bad")
        for image in ("bad", "innocent", "sha256:" + bad):
            denied(run(d, image), "exact")
        equal(run(d, "good").json["stdout"], "good")
        d.replace(HEAD + "  - {id: pinned, verdict: deny, image_except: ['*@sha256:*', 'sha256:*']}\n")
        denied(run(d, "good"), "pinned")
        equal(run(d, bad).json["stdout"], "bad")


@test("what is made here cannot take the name of what a registry has")
def test_what_is_made_here_cannot_take_the_name():
    with Guarded(ONLY_OURS) as d:
        for name in ("registry.internal/tools:1", "Registry.Internal/x", "localhost/x", "none", "oci:x"):
            a = upload(d, name, "evil", status=400)
            check("made here" in a["error"]["message"], a)
        equal(d.get("/v1/images").json["images"], [])


@test("ask and allow, with the image in the question; the host's programs by the name 'none'")
def test_ask_and_allow_with_the_image_in_the_question():
    policy = ("version: 1\ndefault: deny\nrules:\n  - {id: tools, verdict: allow, image: good}\n"
              "  - {id: new, verdict: ask, image: 'new*'}\n")
    with Guarded(policy) as d:
        upload(d, "good", "good")
        digest = upload(d, "newer", "newer")["digest"]
        equal(run(d, "good").json["stdout"], "good")
        a = run(d, "newer")
        equal(a.status, 202, a)
        shown = d.get("/v1/approvals/" + a.json["approval_id"]).json
        equal((shown["rule"], shown["image"], shown["image_digest"]), ("new", "newer", digest))
        denied(d.post("/v1/run", {"command": ["true"]}), "default")
        d.replace("version: 1\ndefault: allow\nrules:\n  - {id: host, verdict: deny, image: none}\n")
        denied(d.post("/v1/run", {"command": ["true"]}), "host")
        equal(run(d, "newer").json["stdout"], "newer")


@test("a sandbox that waited for its image is on record as made by the key that asked")
def test_a_sandbox_that_waited_for_its_image_is_on_record():
    token = {"Authorization": "Bearer the-operators-token"}
    with Guarded(HEAD + "  - {id: x, verdict: ask, command: nothing}\n", "-auth-token", "the-operators-token") as d:
        data = tar({"bin/sh": PROGRAM})
        equal(d.put("/v1/images/tar?name=late", data, headers=token).status, 200)
        k = d.post("/v1/keys", {"name": "maker", "roles": ["agent"]}, headers=token).json
        d.kill_control(headers=token)  # the new one has looked up no image yet
        id = d.post("/v1/sandboxes", {"image": "late"}, headers={"Authorization": "Bearer " + k["secret"]}).json["id"]
        lines = d.get("/v1/audit?kind=sandbox&limit=1000", headers=token).body.splitlines()
        made = [r for r in map(json.loads, lines) if r["sandbox"] == id]
        equal([r.get("key") for r in made], [k["id"]], made)


@test("agents over MCP get the same answer")
def test_agents_over_mcp_get_the_same_answer():
    with Guarded(ONLY_OURS, "-images-registries", "*") as d:
        upload(d, "bad", "bad")
        c = Client(d)
        for image in ("evil.example/x", "bad", "bad"):
            a = c.call("create_sandbox", image=image)["result"]
            check(a["isError"] and "rule 'ours'" in json.dumps(a), a)


main()
