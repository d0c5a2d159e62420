#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two real control planes for one home, by its Lease, over pods of a real kubelet: the first is frozen, the second takes its
sandboxes over, the first wakes and writes nothing, the second dies, and the first goes on. Each byte that a command printed is with
one of them, and each knows how many it did not get. The API server's own account says who wrote what."""
import base64
import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import FULL, skip_all

if not FULL:
    skip_all("it waits for the time of a Lease, twice; check-kube-full has it")
from sandboxes import *

cluster, token = start_world(audit=True)
other_token = cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token", {"spec": {"expirationSeconds": 7200}})["status"]["token"]
RECONNECT_S = 5
# Prints numbered lines, as long as there is no file that says otherwise.
PRINTS = ("i=0; until [ -e enough ]; do i=$((i + 1)); echo line $i; [ $((i % 50)) = 0 ] && sleep 0.2; while [ -e hold ]; do sleep 0.1; done; done;"
          " echo $i >count; exit 5")


def daemon(broker_token):
    return Daemon(*daemon_flags(broker_token), "--kube-instance", "pair", "--kube-uid-first", "100000", "--kube-unproven-network", "--kill-grace",
                  "1s", "--reconnect-timeout", f"{RECONNECT_S}s", runtime="kube")


def credential_of(broker_token):
    """How the API server calls it in its account."""
    body = broker_token.split(".")[1]
    return "JTI=" + json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["jti"]


def writes_of(broker_token):
    """What was changed with that token so far: (verb, resource, name)."""
    entries = [json.loads(line) for line in read(f"{HOME}/audit.log").splitlines()]
    return [(e["verb"], e["objectRef"]["resource"], e["objectRef"].get("name")) for e in entries
            if e["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id") == [credential_of(broker_token)]
            and e["verb"] in ("create", "update", "patch", "delete") and e["objectRef"].get("subresource") != "exec"
            and e["objectRef"]["resource"] != "selfsubjectaccessreviews" and e.get("responseStatus", {}).get("code", 500) < 300]


def signal_all(d, number):
    """To the daemon and all of its processes, first to the one that would start the others again."""
    pids = [d.process.pid, *below(d.process.pid)]
    names = [name_of(pid) for pid in pids]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # one that was woken may end another
            os.kill(pid, number)
    return names


def events_at(d, path):
    return [json.loads(line) for line in d.get(path + "/logs", timeout=180).body.splitlines()]


def pieces_of(events):
    """{offset: text} of what a journal has, by what it says that it does not have; and where it ends."""
    pieces, at = {}, 0
    for e in events:
        if e["type"] == "output":
            pieces[at] = e["data"]
            at += len(e["data"])
        elif e["type"] == "cut":
            at += e["dropped_bytes"]
    return pieces, at


def printed(d, path):
    return pieces_of(events_at(d, path))[1]


def goes_on(d, path):
    before = printed(d, path)
    wait_for(lambda: printed(d, path) > before, lambda: f"it prints: {d.get(path)}\n{d.log_text()}", 2 * PATIENCE_S)


def is_ready(d, sandbox):
    a = d.get("/v1/sandboxes/" + sandbox)
    return a.status == 200 and a.json["state"] == "ready"


@test("a frozen control plane loses its home to another, wakes, writes nothing, and goes on when that one has died: not a byte is lost")
def there_and_back():
    first, second = daemon(token).start(), daemon(other_token)
    made = Sandboxes(cluster, first)
    wait_for(lambda: runtime_report(first)["available"], lambda: f"the cluster is there: {runtime_report(first)}\n{first.log_text()}")
    sb = made.create()
    uid = made.pod_of(sb.id)["metadata"]["uid"]
    path = f"{sb.path}/execs/" + first.post(f"{sb.path}/exec", {"command": ["sh", "-c", PRINTS], "async": True}).json["exec_id"]
    goes_on(first, path)

    def same_pod(generation):
        pod = made.pod_of(sb.id)
        equal((list(made.spaces()), pod["metadata"]["uid"], pod["metadata"]["annotations"]["mas-sandbox/generation"]), ([sb.id], uid, generation))
    frozen = signal_all(first, signal.SIGSTOP)
    check({"mas-kube", "mas-control"} <= set(frozen), frozen)
    second.start()
    wait_for(lambda: is_ready(second, sb.id), lambda: f"the second has it: {second.get(sb.path)}\n{second.log_text()}", 2 * PATIENCE_S)
    goes_on(second, path)
    same_pod("2")

    before = writes_of(token)
    signal_all(first, signal.SIGCONT)
    wait_for(lambda: "another control plane" in runtime_report(first)["why"], lambda: f"{runtime_report(first)}\n{first.log_text()}")
    a = first.post("/v1/sandboxes", WEAKER)
    check(a.status == 503 and "another control plane" in a.json["error"]["message"], a)
    time.sleep(2 * RECONNECT_S)  # for as long as a runner may be away, and more
    check(first.get(sb.path).json["state"] not in ("crashed", "deleted"), f"{first.get(sb.path).json}\n{first.log_text()}")
    equal(writes_of(token)[len(before):], [], f"what the first has written since it woke\n{first.log_text()}")
    equal(Sandbox(second, {"id": sb.id}).sh("touch hold; echo second")["stdout"], "second\n", "the second works")
    settled(lambda: printed(second, path), 2)
    with_second, _ = pieces_of(events_at(second, path))
    same_pod("2")

    second.process.send_signal(signal.SIGKILL)
    second.process.wait()
    wait_for(lambda: is_ready(first, sb.id) and runtime_report(first)["available"], lambda: f"the first has it: {first.get(sb.path)}\n{first.log_text()}",
             2 * PATIENCE_S)
    equal(sb.sh("rm hold; echo first")["stdout"], "first\n", "the first works")
    goes_on(first, path)
    same_pod("3")
    sb.sh("touch enough")
    wait_for(lambda: first.get(path).json["status"] == "completed", lambda: f"its end: {first.get(path).json}\n{first.log_text()}")
    equal(first.get(path).json["exit_code"], 5, first.get(path).json)
    want = "".join(f"line {i}\n" for i in range(1, int(sb.exec("cat", "count")["stdout"]) + 1))
    with_first, end = pieces_of(events_at(first, path))
    equal(end, len(want), "how far the first knows it")
    covered = 0
    for at, text in sorted([*with_first.items(), *with_second.items()]):
        equal(text, want[at:at + len(text)], f"the bytes from {at} on")
        check(at <= covered, f"{covered} to {at} are with neither")
        covered = max(covered, at + len(text))
    equal(covered, len(want), "bytes that are with one of them")
    sb.delete()
    made.nothing_left()
    equal(first.stop(), 0, first.log_text())


main()
