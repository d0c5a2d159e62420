#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mas-kube with the account, the role and the admission policy that deploy/kube/base ships, judged by a real API server and
a real etcd: what it makes is accepted and is what was ordered, every refusal is told apart, nothing is lost, doubled or left
over while servers are killed, and neither an order beyond the ceiling nor the credential itself gets further."""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from broker import *

enter()
cluster = Cluster()
cluster.start()
SPACES = "/api/v1/namespaces"
ROLE, OWN_ROLE = COLLECTIONS["ClusterRole"] + "/mas-kube", COLLECTIONS["Role"] + "/mas-kube"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/mas-sandbox/leases"
GUARD = COLLECTIONS["ConfigMap"] + "/mas-kube"
MERGE = "application/merge-patch+json"
POLICIES = "/apis/networking.k8s.io/v1/namespaces"


def pods_of(space):
    return f"{SPACES}/{space}/pods"


def new_token():
    return cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token",
                        {"spec": {"expirationSeconds": 7200}})["status"]["token"]


def broker(**more):
    return Broker(kubeconfig=kubeconfig({}, {"token": token}), **more)


def as_broker(method, path, body=None, **kw):
    return cluster.call(method, path, body, token=token, **kw)



def namespaces_left():
    return [s["metadata"]["name"] for s in cluster.get(SPACES)["items"] if s["metadata"]["name"].startswith("sbx-")]


def case(name):
    """A test that finds no sandbox there, whatever the one before has left."""
    def add(fn):
        def run():
            for space in namespaces_left():
                cluster.call("PATCH", f"{SPACES}/{space}", {"metadata": {"annotations": {"test/stays": None}}}, kind=MERGE)
                cluster.call("DELETE", f"{SPACES}/{space}")
            wait_for(lambda: not namespaces_left(), lambda: f"left: {namespaces_left()}", PATIENCE_S + len(namespaces_left()))
            fn()
        return test(name)(run)
    return add


# --- the base, which all that follows needs

def apply_base():
    """Returns the versions of its objects."""
    def apply(kind, name, text):
        r = cluster.insist("PATCH", f"{COLLECTIONS[kind]}/{name}?fieldManager=test&fieldValidation=Strict", text,
                           kind="application/apply-patch+yaml")
        check(r.status in (200, 201), f"{kind} {name}: {r}")
        check("Warning" not in r.headers, f"{kind} {name}: {r.headers}")
        return r.json["metadata"]["resourceVersion"]
    return [apply(*o) for o in base_objects()]


versions = apply_base()
again = apply_base()
# The images of this test, in the place of those that an operator puts there.
cluster.change(GUARD, {"data": {"link_image": LINK_IMAGE, "images": "docker.example/base:\n"}})
token = new_token()


def refused_elsewhere():
    return as_broker("POST", SPACES + "?dryRun=All", {"metadata": {"name": "elsewhere"}})


# The API server takes a policy and a binding into use some time after it has them.
wait_for(lambda: b"does not begin" in refused_elsewhere().body, lambda: f"the admission policy is in use: {refused_elsewhere().body}")


@test("deploy/kube/base is accepted strictly, and applied again it changes nothing")
def base():
    check(len(versions) >= 8, "there are objects")
    equal(again, versions, "versions after the second time")


# --- what is made

@case("a sandbox's objects are accepted, and are what was ordered")
def create():
    with broker() as b:
        r = b.do(order(CREATE, "made", generation=7, owner="key-1", spec='{"a":"b"}', spec_hash="abc", home="here"))
        space = cluster.get(f"{SPACES}/sbx-made")
        equal(space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")
        pod = cluster.get(pods_of("sbx-made") + "/sandbox")
        equal(pod["metadata"]["uid"], r.uid.decode(), "the pod's uid")
        equal(pod["metadata"]["annotations"]["mas-sandbox/generation"], "7")
        equal(pod["metadata"]["annotations"]["mas-sandbox/spec"], '{"a":"b"}')
        equal(pod["metadata"]["labels"]["mas-sandbox/spec-hash"], "abc")
        equal(pod["spec"]["serviceAccountName"], "sandbox")
        equal([v for v in pod["spec"]["volumes"] if "projected" in v or "secret" in v], [], "volumes with a token")
        equal(pod["spec"]["containers"][0]["resources"]["limits"], {"cpu": "500m", "memory": str(256 * MIB)})
        policy = cluster.get("/apis/networking.k8s.io/v1/namespaces/sbx-made/networkpolicies/sandbox")
        equal(sorted(policy["spec"]["policyTypes"]), ["Egress", "Ingress"])
        equal([policy["spec"].get("ingress"), policy["spec"].get("egress")], [None, None], "what the policy lets through")
        check(int(policy["metadata"]["resourceVersion"]) < int(pod["metadata"]["resourceVersion"]), "the policy is there first")
        again = order(CREATE, "made", generation=7, owner="key-1", spec='{"a":"b"}', spec_hash="abc", home="here")
        equal(b.do(again).uid, r.uid, "ordered again: the same pod")
        again.nonce = 1
        other = b.ask(again)
        check(other.error == CONFLICT and "another sandbox of this id" in other.text, f"another create: {other}")
        check(cluster.get(pods_of("sbx-made") + "/sandbox"), "which has not touched it")
        b.do(order(DELETE, "made"))
        equal(cluster.get(f"{SPACES}/sbx-made"), None, "what is left")
        b.do(order(DELETE, "made"))


def annotations(path):
    return cluster.get(path)["metadata"]["annotations"]


@case("what objects say of their sandbox: a generation for each control plane, its last command, what it is")
def annotated():
    space, pod = f"{SPACES}/sbx-noted", pods_of("sbx-noted") + "/sandbox"
    with broker() as b:
        b.do(order(CREATE, "noted", generation=1, owner="key-1", spec='{"a":1}', home="here"))
        for path in (space, pod):
            labels = cluster.get(path)["metadata"]["labels"]
            equal((labels["sbx.state"], labels["sbx.allocated"], annotations(path)["mas-sandbox/home"]), ("claimed", "true", "here"))
        for generation in (2, 3):
            equal(b.do(order(TAKE, "noted", home="here")).generation, generation, "the next generation")
            equal(annotations(pod)["mas-sandbox/generation"], str(generation))
        before = cluster.get(pod)["metadata"]["resourceVersion"]
        r = b.ask(order(TAKE, "noted", home="there"))
        check(r.error == CONFLICT and "which this broker is for" in r.text, r)
        with broker(ceiling={"home": "there"}) as other:
            for op, members in ((TAKE, {"home": "there"}), (MARK, {"generation": 9, "last_exec_s": 1}), (READ, {}), (DELETE, {})):
                r = other.ask(order(op, "noted", **members))
                check(r.error == CONFLICT and "of another control plane" in r.text, f"{op}: {r}")
        r = b.ask(order(MARK, "noted", generation=2, last_exec_s=1))
        check(r.error == CONFLICT and "later control plane" in r.text, r)
        b.do(order(MARK, "noted", generation=3, last_exec_s=1700000000))
        equal(annotations(space)["sbx.last_exec_at"], "1700000000")
        equal(cluster.get(pod)["metadata"]["resourceVersion"], before, "the pod was not written to")
        text = json.dumps({"x": "\u00fc" * 5000})
        b.do(order(MARK, "noted", generation=3, last_exec_s=1700000001, owner="key-2", spec=text))
        equal((annotations(pod)["mas-sandbox/owner"], annotations(pod)["mas-sandbox/spec"]), ("key-2", text))
        for state, words in ((1, ("ready", "false")), (2, ("claimed", "true"))):
            b.do(order(MARK, "noted", generation=3, state=state))
            for path in (space, pod):
                labels = cluster.get(path)["metadata"]["labels"]
                equal((labels["sbx.state"], labels["sbx.allocated"]), words, path)
        equal(annotations(space)["sbx.last_exec_at"], "1700000001", "what was not said stays")
        r = b.do(order(READ, "noted"))
        with socket.socket(fileno=r.fds[0]) as stream:
            equal(b"".join(iter(lambda: stream.recv(65536), b"")).decode(), text, "what is read")
        known = b.list()["noted"]
        equal((known.home, known.generation, known.last_exec_s), (b"here", 3, 1700000001), "the list has it")
        for op, members in ((TAKE, {"home": "here"}), (MARK, {"generation": 3, "last_exec_s": 1}), (READ, {})):
            r = b.ask(order(op, "nothing", **members))
            check(r.error and not getattr(r, "fds", []), f"of a sandbox that is not there: {r}")
        cluster.call("PATCH", space, {"metadata": {"labels": {"mas-sandbox/instance": "another"}}}, kind=MERGE)
        r = b.ask(order(MARK, "noted", generation=3, last_exec_s=1700000002))
        check(r.error == CONFLICT and "not of this daemon" in r.text, r)
        equal(annotations(space)["sbx.last_exec_at"], "1700000001", "it was not touched")


@case("the namespace enforces the restricted profile against anybody")
def restricted():
    with broker() as b:
        b.do(order(CREATE, "walls"))
        bad = {"metadata": {"name": "bad"}, "spec": {"serviceAccountName": "sandbox", "containers": [
            {"name": "c", "image": IMAGE, "securityContext": {"privileged": True}}]}}
        r = cluster.call("POST", pods_of("sbx-walls"), bad)
        check(r.status == 403 and b"PodSecurity" in r.body, r)
        b.do(order(DELETE, "walls"))


@case("every kind of order is accepted: flags, classes, claims, networks, the longest id")
def variants():
    for path, body in (("node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "gvisor"}, "handler": "runsc"}),
                       ("scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "sandboxes"}, "value": 10})):
        r = cluster.call("POST", f"/apis/{path}", body)
        check(r.status in (201, 409), r)
    four = Range(family=4, bits=24, port_first=0, port_last=65535, address=(ctypes.c_uint8 * 16)(192, 0, 2))
    six = Range(family=6, bits=32, port_first=443, port_last=444, address=(ctypes.c_uint8 * 16)(0x20, 1, 0xd, 0xb8))
    kinds = {
        "writable": {"flags": WRITABLE_ROOT}, "pooled": {"flags": POOL_MEMBER}, "users": {"flags": OWN_USERS},
        "class": {"runtime_class": "gvisor"}, "node-disk": {"workspace": Volume(volume=NODE, bytes=MIB)},
        "claims": {"workspace": Volume(volume=CLAIM, bytes=MIB, access=1),
                   "cache": Volume(volume=CLAIM, bytes=MIB, access=2, storage_class=b"fast")},
        "networks": {"ranges": [four, six]}, "requests": {"cpu_request_millicores": 10, "memory_request_bytes": MIB},
        "slot": {"slot": 999}, "x" * 59: {}, "text": {"spec": "\u00fc\n\"quoted\"" + "y" * 8000},
    }
    with broker(ceiling={"priority_class": "sandboxes"}) as b:
        tags = {name: b.send(order(CREATE, name, **members)) for name, members in kinds.items()}
        for name, tag in tags.items():
            r = b.answer(tag)
            equal(r.error, 0, f"{name}: {r}")
        egress = cluster.get("/apis/networking.k8s.io/v1/namespaces/sbx-networks/networkpolicies/sandbox")["spec"]["egress"]
        equal(egress[0], {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]})
        equal(egress[1]["to"], [{"ipBlock": {"cidr": "2001:db8::/32"}}])
        equal([(p["protocol"], p["port"], p["endPort"]) for p in egress[1]["ports"]], [("TCP", 443, 444), ("UDP", 443, 444)])
        pod = cluster.get(pods_of("sbx-users") + "/sandbox")["spec"]
        equal((pod["hostUsers"], pod["priorityClassName"]), (False, "sandboxes"))
        claims = cluster.get(f"{SPACES}/sbx-claims/persistentvolumeclaims")["items"]
        equal({c["metadata"]["name"]: c["spec"]["accessModes"] for c in claims},
              {"workspace": ["ReadWriteOncePod"], "cache": ["ReadWriteMany"]})
        wait_for(lambda: sorted(b.list()) == sorted(kinds), "the list has all of them")
        tags = [b.send(order(DELETE, name)) for name in kinds]
        equal([b.answer(t).error for t in tags], [0] * len(tags), "deletions")


# --- refusals

@case("a taken namespace that is not ours is a conflict, and stays as it was")
def taken():
    for labels in ({}, {"app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "another",
                        "mas-sandbox/id": "taken"}):
        before = cluster.make(SPACES, {"metadata": {"name": "sbx-taken", "labels": labels}})
        with broker() as b:
            for op in (CREATE, DELETE):
                r = b.ask(order(op, "taken"))
                check(r.error == CONFLICT and "not of this daemon" in r.text, r)
        after = cluster.get(f"{SPACES}/sbx-taken")
        equal((after["metadata"]["uid"], after["metadata"]["resourceVersion"]),
              (before["metadata"]["uid"], before["metadata"]["resourceVersion"]), "the namespace")
        equal(cluster.get(pods_of("sbx-taken"))["items"], [], "pods in it")
        cluster.call("DELETE", f"{SPACES}/sbx-taken")
        wait_for(lambda: not cluster.get(f"{SPACES}/sbx-taken"), "it is gone")


@case("no stream leads to a pod with our labels in a namespace that is another's")
def planted():
    with broker() as b:
        b.do(order(CREATE, "model"))
        model = cluster.get(pods_of("sbx-model") + "/sandbox")
        cluster.make(SPACES, {"metadata": {"name": "sbx-planted"}})
        cluster.make(f"{SPACES}/sbx-planted/serviceaccounts", {"metadata": {"name": "sandbox"}})
        cluster.make(pods_of("sbx-planted"), {"metadata": {
            "name": "sandbox", "labels": dict(model["metadata"]["labels"], **{"mas-sandbox/id": "planted"}),
            "annotations": model["metadata"]["annotations"]}, "spec": model["spec"]})
        wait_for(lambda: "planted" in b.list(), "the watch has it")
        r = b.ask(order(CONNECT, "planted"))
        check(r.error == CONFLICT and "namespace of sandbox planted is not of this daemon" in r.text, r)
        equal(b.ask(order(CONNECT, "model")).error, INVALID, "its own pod has no node")
        b.do(order(DELETE, "model"))


def own_namespace(name):
    """One that the broker takes for its own: made of a plain order before, as far as it can see."""
    return cluster.make(SPACES, {"metadata": {"name": "sbx-" + name, "annotations": {
        "mas-sandbox/order": order_sum(order(CREATE, name)), "mas-sandbox/home": "here"}, "labels": {
        "app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "test", "mas-sandbox/id": name,
        "pod-security.kubernetes.io/enforce": "restricted"}}})


def fill_quota(name):
    """A quota without room, and the count that a controller would have written."""
    own_namespace(name)
    path = f"{SPACES}/sbx-{name}/resourcequotas"
    cluster.make(path, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    r = cluster.call("PATCH", path + "/none/status", {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}, kind=MERGE)
    equal(r.status, 200, r)


@case("the meanings of 403: a full quota, a class that is not there, an admission, a namespace that is ending")
def forbidden():
    with broker() as b:
        fill_quota("quota")
        r = b.ask(order(CREATE, "quota"))
        check(r.error == LIMIT and "ResourceQuota" in r.text, r)
        r = b.ask(order(CREATE, "classless", runtime_class="missing"))
        check(r.error == INVALID and "RuntimeClass 'missing'" in r.text, r)
        wait_for(lambda: not cluster.get(f"{SPACES}/sbx-classless"), "the failed one was undone")
        own_namespace("ending")
        cluster.call("PATCH", f"{SPACES}/sbx-ending", {"metadata": {"annotations": {"test/stays": "1"}}}, kind=MERGE)
        cluster.call("DELETE", f"{SPACES}/sbx-ending")
        r = b.ask(order(CREATE, "ending"))
        check(r.error == CONFLICT and "being deleted" in r.text, r)
        cluster.call("PATCH", f"{SPACES}/sbx-ending", {"metadata": {"annotations": {"test/stays": None}}}, kind=MERGE)
        b.do(order(DELETE, "quota"))
    with broker(ceiling={"images": ["other.example/"]}) as b:
        r = b.ask(order(CREATE, "refused", image="other.example/x:1"))
        check(r.error == FORBIDDEN and "an image that the settings allow" in r.text, r)
        wait_for(lambda: not cluster.get(f"{SPACES}/sbx-refused"), "the failed one was undone")


def refusals():
    """How many calls the API server has answered with 429 in the level of the next case."""
    found = re.findall(r'^apiserver_flowcontrol_rejected_requests_total\{.*priority_level="narrow".*\} (\d+)$',
                       cluster.call("GET", "/metrics").body.decode(), re.M)
    return sum(map(int, found))


@case("429: orders wait as long as the server says, and all are carried out")
def busy():
    flow = "/apis/flowcontrol.apiserver.k8s.io/v1"
    names = [f"busy-{i}" for i in range(20)]
    # One call at a time, and none that waits for its turn.
    cluster.make(f"{flow}/prioritylevelconfigurations", {"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}})
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "mas-sandbox", "name": "mas-kube"}}
    uid = cluster.make(f"{flow}/flowschemas", {"metadata": {"name": "narrow"}, "spec": {
        "priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 2, "rules": [{"subjects": [subject],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}]}]}}
        )["metadata"]["uid"]
    try:
        wait_for(lambda: as_broker("GET", SPACES + "/x").headers["X-Kubernetes-PF-FlowSchema-UID"] == uid, "the account is held back")
        before = refusals()
        with broker() as b:
            tags = {name: b.send(order(CREATE, name)) for name in names}
            replies = {name: b.answer(tag) for name, tag in tags.items()}
            equal([r for r in replies.values() if r.error], [], "orders that failed")
        check(refusals() > before, "the API server has refused none")
        equal(len({r.uid for r in replies.values()}), len(names), "pods")
    finally:
        cluster.call("DELETE", f"{flow}/flowschemas/narrow")
        cluster.call("DELETE", f"{flow}/prioritylevelconfigurations/narrow")


@case("two brokers that make the same sandbox make one")
def race():
    with broker() as one, broker() as two:
        for turn in range(5):
            name = f"race-{turn}"
            tags = [(b, b.send(order(CREATE, name))) for b in (one, two)]
            replies = [b.answer(tag) for b, tag in tags]
            equal([r.error for r in replies], [0, 0], replies)
            equal(replies[0].uid, replies[1].uid, "one pod")
            equal(len(cluster.get(pods_of("sbx-" + name))["items"]), 1, "pods")
            one.do(order(DELETE, name))


def claim(name, who, **members):
    return order(CLAIM_POD, name, **dict({"generation": 1, "owner": who, "spec": json.dumps({"id": name, "by": who})}, **members))


def pod_patches():
    """Writes to pods that the API server has carried out since it began."""
    text = cluster.call("GET", "/metrics").body.decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("apiserver_request_total{")
               and all(f'{word}"' in line for word in ('code="200', 'resource="pods', 'subresource="', 'verb="PATCH')))


@case("a pod made ahead is claimed by one write: with the generation that it was taken with, while no caller has it")
def claimed():
    pod = pods_of("sbx-ahead") + "/sandbox"
    with broker() as b:
        b.do(order(CREATE, "ahead", flags=POOL_MEMBER, owner="", spec='{"pool":"x"}'))
        before = annotations(pod)
        for o, words in ((claim("ahead", "key-1", generation=2), "by another control plane"), (claim("nothing", "key-1"), "not found")):
            r = b.ask(o)
            check(r.error and words in r.text, r)
        equal(b.ask(claim("ahead", "key-1", spec="")).error, INVALID, "a caller has a record")
        with broker(ceiling={"home": "there"}) as other:
            r = other.ask(claim("ahead", "key-1"))
            check(r.error == CONFLICT and "not of this daemon" in r.text, r)
        equal(annotations(pod), before, "nothing of it was touched")
        wait_for(lambda: "ahead" in b.list(), "the watch has it")
        writes = pod_patches()
        b.do(claim("ahead", "key-1"))
        equal(pod_patches() - writes, 1, "writes")
        b.do(claim("ahead", "key-1"))  # the same order, as by another broker
        equal(pod_patches() - writes, 1, "writes after it was repeated")
        r = b.ask(claim("ahead", "key-2"))
        check(r.error == CONFLICT and "has a caller already" in r.text, r)
        labels = cluster.get(pod)["metadata"]["labels"]
        equal((labels["sbx.pool"], labels["sbx.state"], labels["sbx.allocated"]), ("warm", "claimed", "true"), labels)
        equal((annotations(pod)["mas-sandbox/owner"], json.loads(annotations(pod)["mas-sandbox/spec"])["by"]), ("key-1", "key-1"))
        equal(annotations(pod)["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false", "it has a caller")
        b.do(order(CREATE, "written", flags=POOL_MEMBER))
        for i in range(20):  # a kubelet writes to pods, too: that is no reason to pass one over
            cluster.call("PATCH", pods_of("sbx-written") + "/sandbox", {"metadata": {"annotations": {"test/n": str(i)}}}, kind=MERGE)
        b.do(claim("written", "key-1"))
        b.each([order(DELETE, "ahead"), order(DELETE, "written")])


@case("brokers that race for pods made ahead: none is given twice, and none is lost")
def race():
    names = [f"member-{i}" for i in range(1000 if FULL else 60)]
    with broker() as one, broker() as two:
        equal({r.error for r in one.each([order(CREATE, name, flags=POOL_MEMBER) for name in names])}, {0}, one.log())
        wait_for(lambda: len(two.list()) == len(names) == len(one.list()), "both know them", 2 * PATIENCE_S)
        answers, writes, together = {}, pod_patches(), threading.Barrier(2)

        def take(b, who):
            together.wait()
            answers[who] = dict(zip(names, b.each([claim(name, who) for name in names], 4)))
        threads = [threading.Thread(target=take, args=x) for x in ((one, "key-1"), (two, "key-2"))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(set(answers), {"key-1", "key-2"}, "both have their answers")
        for name in names:
            winners = [who for who, of in answers.items() if of[name].error == 0]
            equal(len(winners), 1, f"{name}: {[of[name] for of in answers.values()]}")
            equal({of[name].error for of in answers.values()}, {0, CONFLICT}, name)
            equal(annotations(pods_of("sbx-" + name) + "/sandbox")["mas-sandbox/owner"], winners[0], name)
        equal(pod_patches() - writes, len(names), "one write for each")
        print(f"# {len(names)} pods: {[sum(1 for r in of.values() if not r.error) for of in answers.values()]}")
        one.each([order(DELETE, name) for name in names], 200)


# --- one control plane at a time

def holder_of(home, instance="test"):
    lease = cluster.get(f"{LEASES}/{instance}.{home}")
    return lease["spec"].get("holderIdentity", "")


@case("one broker at a time has a home: another waits, says whose it is, and writes nothing")
def lease():
    with broker(holder="first") as one, broker(holder="second") as two, broker(ceiling={"home": "there"}) as three:
        equal(one.hold("here").error, 0, "nothing stands in its way")
        check(holder_of("here").endswith("-first"), holder_of("here"))
        one.do(order(CREATE, "ours", home="here"))
        before = cluster.get(pods_of("sbx-ours") + "/sandbox")["metadata"]["resourceVersion"]
        r = two.hold("here")
        check(r.error == UNAVAILABLE and r.reason == b"other" and holder_of("here") in r.text, r)
        for o in (order(CREATE, "late", home="here"), order(DELETE, "ours"), order(TAKE, "ours", home="here"),
                  order(MARK, "ours", last_exec_s=1), order(PROVE, "wall", home="here"), order(CLAIM_POD, "ours", generation=1, spec="{}")):
            r = two.ask(o)
            check(r.error == UNAVAILABLE and "does not have the Lease test.here" in r.text, f"{o.op}: {r}")
        equal(namespaces_left(), ["sbx-ours"], "namespaces")
        equal(cluster.get(pods_of("sbx-ours") + "/sandbox")["metadata"]["resourceVersion"], before, "the pod was not written to")
        wait_for(lambda: "ours" in two.list(), "it may look")
        equal(three.hold("there").error, 0, "another home is another's")
        equal(one.ask(order(HOLD, home="there")).error, FORBIDDEN, "a broker has one home")
        one.do(order(HOLD))
        two.wait_held(lambda r: r.error == 0)
        check(holder_of("here").endswith("-second"), holder_of("here"))
        two.do(order(DELETE, "ours"))
        equal(one.hold("here").reason, b"other", "and now the other way round")
        cluster.call("PATCH", f"{LEASES}/test.here", {"spec": {"holderIdentity": "by-hand"}}, kind=MERGE)
        two.wait_held(lambda r: r.error and r.reason == b"other" and "by-hand" in r.text)
        equal(two.ask(order(CREATE, "late", home="here")).error, UNAVAILABLE, "what was taken from it is not its any more")


@case("a broker that stands still loses its home once its time has passed, and notices that")
def lease_lost():
    if not FULL:
        raise Skip("it waits for the time of a Lease; check-kube-full has it")
    with broker() as one, broker() as two:
        equal(one.hold("here").error, 0)
        equal(two.hold("here").reason, b"other")
        one.process.send_signal(signal.SIGSTOP)
        tag = one.send(order(CREATE, "late", home="here"))
        two.wait_held(lambda r: r.error == 0)
        one.process.send_signal(signal.SIGCONT)
        equal(one.answer(tag).error, UNAVAILABLE, "an order that waited")
        one.wait_held(lambda r: r.reason == b"other")
        equal(namespaces_left(), [], "nothing was made")


def daemon():
    return Daemon("--kube-config", kubeconfig({}, {"token": token}), "--kube-images", "docker.example/base:", "--kube-link-image",
                  LINK_IMAGE, "--kube-image", IMAGE, "--kube-instance", "pair")


def runtime_report(d):
    return [r for r in d.get("/v1/status").json["runtimes"] if r["name"] == "kube"][0]


@case("of two daemons one works; the other waits, says so, refuses creates, and touches nothing until it has the home")
def pair():
    one, two = daemon().start(), daemon()
    try:
        wait_for(lambda: runtime_report(one)["available"], lambda: f"{runtime_report(one)}\n{one.log_text()}")
        first = holder_of("pair", "pair")
        two.start()
        wait_for(lambda: "another control plane" in runtime_report(two)["why"], lambda: f"{runtime_report(two)}\n{two.log_text()}")
        equal(runtime_report(two)["available"], False, runtime_report(two))
        check(first in runtime_report(two)["why"] and "this one waits" in two.log_text(), two.log_text())
        a = two.post("/v1/sandboxes", {"runtime": "kube", "accept_weaker": ["network"]})
        check(a.status == 503 and "another control plane" in a.json["error"]["message"], a)
        equal(two.post("/v1/sandboxes", {}).status, 201, "its other runtimes work")
        doctor = subprocess.run([SBX, "doctor", "-addr", f"http://127.0.0.1:{two.port}"], capture_output=True, text=True)
        check("another control plane" in doctor.stdout, doctor)
        if FULL:
            one.process.send_signal(signal.SIGKILL)
            one.process.wait()
        labels = {"app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "pair", "mas-sandbox/id": "stranger"}
        if FULL:
            cluster.make(SPACES, {"metadata": {"name": "sbx-stranger", "labels": labels, "annotations": {"mas-sandbox/home": "pair"}}})
            equal(holder_of("pair", "pair"), first, "the home of a daemon that was killed is its own for a while")
            wait_for(lambda: not cluster.get(f"{SPACES}/sbx-stranger"), lambda: two.log_text())
            check(holder_of("pair", "pair") != first, "it was deleted by a daemon without the home")
        else:
            equal(one.stop(), 0, one.log_text())
        wait_for(lambda: runtime_report(two)["available"], lambda: f"{runtime_report(two)}\n{two.log_text()}")
        check(holder_of("pair", "pair") not in ("", first), holder_of("pair", "pair"))
    finally:
        for d in (one, two):
            if d.process and d.process.poll() is None:
                d.stop()
    if not FULL:
        equal(holder_of("pair", "pair"), "", "it is given back at the end")


# --- rights

def without_right(role, group, resource, verb):
    """The role's rules without that one."""
    rules = []
    for rule in role["rules"]:
        same = rule["apiGroups"] == [group] and rule["resources"] == [resource]
        verbs = [v for v in rule["verbs"] if not (same and v == verb)]
        if verbs:
            rules.append(dict(rule, verbs=verbs))
    return rules


def may(group, resource, verb):
    name, _, part = resource.partition("/")
    r = as_broker("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": group, "resource": name, "subresource": part, "verb": verb,
                                        "namespace": "mas-sandbox" if name == "leases" else ""}}})
    return r.json["status"]["allowed"]


def put_rules(path, rules, group, resource, verb, allowed):
    equal(cluster.call("PATCH", path, {"rules": rules}, kind=MERGE).status, 200, "the role")
    wait_for(lambda: may(group, resource, verb) == allowed, f"{verb} {resource} is allowed: {allowed}")


def missed(resource, verb, number):
    """Does all that needs the right, with a broker of its own; returns what went otherwise than with all rights."""
    name, claim = f"right-{number}", Volume(volume=CLAIM, bytes=MIB)
    wrong = []

    def expect(r, error, what):
        if r.error != error:
            wrong.append(f"{what}: {r}")
    with broker(ceiling={"home": name} if resource == "leases" else {}) as b:
        r = b.ask(order(PROBE))
        if r.error:
            check(f"{verb} {resource}" in re.split(r"no right to: |, ", r.text), f"the probe names {verb} {resource}: {r}")
            wrong.append("probe")
        if resource == "leases":
            expect(b.hold(name), 0, "hold")
            b.connect()  # the one before gives it back, and this one takes it
            expect(b.hold(name), 0, "hold again")
            return wrong
        if resource == "pods" and verb in ("list", "watch"):
            # No order waits for the watch: the log says that it fails.
            def heard():
                b.take(0)
                return "watch of pods fails" in b.log() or any(t.name == name for t in b.told)
            b.ask(order(CREATE, name))
            wait_for(heard, "the pod is told, or the watch fails")
            if "watch of pods fails" in b.log():
                wrong.append("watch")
            b.ask(order(DELETE, name))
            return wrong
        expect(b.ask(order(CREATE, name, workspace=claim)), 0, "create")
        expect(b.ask(order(CREATE, name, workspace=claim)), 0, "create again")
        expect(b.ask(order(TAKE, name)), 0, "take")
        expect(b.ask(order(MARK, name, generation=2, last_exec_s=1)), 0, "mark")
        r = b.ask(order(CONNECT, name))
        expect(r, INVALID, "connect")  # the pod has no node, which only a caller with the rights gets to know
        if resource == "runtimeclasses":
            expect(b.ask(order(CREATE, name + "-class", runtime_class="missing")), INVALID, "an unknown class")
        if resource == "resourcequotas":
            fill_quota(name + "-quota")
            expect(b.ask(order(CREATE, name + "-quota")), LIMIT, "a full quota")
            b.ask(order(DELETE, name + "-quota"))
        if (resource, verb) == ("namespaces", "list"):
            wait_for(lambda: "not listed its pods" not in b.ask(order(LIST)).text, "the watch has told its pods")
            expect(b.ask(order(LIST)), 0, "list")
        expect(b.ask(order(DELETE, name)), 0, "delete")
    return wrong


@case("every right of the shipped role is used and asked for, and missed when it is taken away")
def rights():
    roles = [(path, cluster.get(path)) for path in (ROLE, OWN_ROLE)]
    all_rights = [(path, role, group, resource, verb) for path, role in roles for rule in role["rules"]
                  for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]]
    check(len(all_rights) >= 20, all_rights)
    equal(missed("leases", "get", 97), [], "with all rights")
    equal(missed("resourcequotas", "list", 98), [], "with all rights")
    equal(missed("runtimeclasses", "get", 99), [], "with all rights")
    for number, (path, role, group, resource, verb) in enumerate(all_rights):
        put_rules(path, without_right(role, group, resource, verb), group, resource, verb, False)
        try:
            wrong = missed(resource, verb, number)
            check("probe" in wrong, f"the probe misses {verb} {resource}: {wrong}")
            check(len(wrong) > 1, f"no order fails without {verb} {resource}")
        finally:
            put_rules(path, role["rules"], group, resource, verb, True)


# --- a credential or a control plane that was taken over

# --- overlays

OVERLAYS = sorted(set(os.listdir(os.path.dirname(BASE))) - {"base"})


@case("every overlay is rendered, and each of its objects is accepted as it is")
def overlays():
    check({"direct", "gvisor", "shared"} <= set(OVERLAYS), OVERLAYS)
    if not shutil.which("kubectl"):
        raise Skip("there is no kubectl, which renders overlays")
    if not cluster.get(f"{SPACES}/mas-sandboxes"):  # what is not made is the namespace of others' objects
        cluster.make(SPACES, {"metadata": {"name": "mas-sandboxes"}})
    for name in OVERLAYS:
        p = subprocess.run(["kubectl", "kustomize", os.path.join(os.path.dirname(BASE), name)], capture_output=True, text=True)
        equal(p.returncode, 0, f"{name}: {p.stderr}")
        objects = p.stdout.split("\n---\n")
        check(len(objects) > len(list(base_objects())), f"{name}: {len(objects)} objects")
        for text in objects:
            kind, what = re.search(r"^kind: (\w+)$", text, re.M)[1], re.search(r"^  name: (\S+)$", text, re.M)[1]
            r = cluster.call("PATCH", f"{collection_of(kind, text)}/{what}?fieldManager=render&force=true&dryRun=All&fieldValidation=Strict",
                             text, kind="application/apply-patch+yaml")
            check(r.status in (200, 201) and "Warning" not in r.headers, f"{name}: {kind} {what}: {r}")


@case("the overlay gvisor: no pod is made without the class, whatever is ordered")
def gvisor():
    apply_objects(cluster, "gvisor")
    try:
        with broker() as b:
            def refused():
                r = b.ask(order(CREATE, "plain"))
                return r.error == FORBIDDEN and "a RuntimeClass that the settings allow" in r.text
            wait_for(refused, "a pod without the class is refused")
            b.do(order(CREATE, "walled", runtime_class="gvisor"))
            equal(cluster.get(pods_of("sbx-walled") + "/sandbox")["spec"]["runtimeClassName"], "gvisor")
            b.do(order(DELETE, "walled"))
    finally:
        cluster.call("PATCH", GUARD, {"data": {"runtime_classes": None}}, kind=MERGE)
    with broker() as b:
        wait_for(lambda: b.ask(order(CREATE, "plain")).error == 0, "without the overlay's line it is made again")
        b.do(order(DELETE, "plain"))


@case("an order beyond the ceiling is refused, and the cluster sees nothing of it")
def ceiling():
    beyond = {
        "image": {"image": "evil.example/x:1"}, "class": {"runtime_class": "kata"}, "memory": {"memory_bytes": 2 << 30},
        "cpu": {"cpu_millicores": 5000}, "slot": {"slot": 1000}, "disk": {"workspace": Volume(bytes=3 << 30)},
        "storage": {"cache": Volume(volume=CLAIM, bytes=MIB, storage_class=b"slow")},
        "network": {"ranges": [Range(family=4, bits=8, port_last=65535, address=(ctypes.c_uint8 * 16)(10))]},
    }
    with broker() as b:
        for name, members in beyond.items():
            r = b.ask(order(CREATE, name, **members))
            check(r.error == FORBIDDEN and "beyond what the operator allows" in r.text, f"{name}: {r}")
        for name in ("../../kube-system", "A", "", "a/b", "a."):
            r = b.ask(order(DELETE, name))
            check(r.error == INVALID, f"{name}: {r}")
    equal([s for s in beyond if cluster.get(f"{SPACES}/sbx-{s}")], [], "namespaces")
    with broker(ceiling={"prefix": "sbx-a-long-prefix-"}) as b:
        r = b.ask(order(CREATE, "y" * 59))
        check(r.error == INVALID and "too long" in r.text, r)


@case("the credential by itself: admission holds it to sandboxes, the role to what they need")
def credential():
    with broker() as b:
        b.do(order(CREATE, "victim"))
        good = cluster.get(pods_of("sbx-victim") + "/sandbox")
        # One that enforces no profile, so that our policy alone has to refuse.
        cluster.make(SPACES, {"metadata": {"name": "sbx-lax"}})
        for name in ("sandbox", "other"):
            cluster.make(f"{SPACES}/sbx-lax/serviceaccounts", {"metadata": {"name": name}})
        pod = {"metadata": {"name": "sandbox", "labels": good["metadata"]["labels"]},
               "spec": {k: v for k, v in good["spec"].items() if k not in ("nodeName", "priority", "preemptionPolicy")}}
        labels = {"labels": good["metadata"]["labels"]}

        def changed(path, value):
            copy = json.loads(json.dumps(pod))
            at = copy
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = value
            return copy
        tries = {
            "the host's network": changed(["spec", "hostNetwork"], True),
            "the host's processes": changed(["spec", "hostPID"], True),
            "a node's directory": changed(["spec", "volumes"], pod["spec"]["volumes"] + [
                {"name": "h", "hostPath": {"path": "/"}}]),
            "a secret as a volume": changed(["spec", "volumes"], pod["spec"]["volumes"] + [
                {"name": "s", "secret": {"secretName": "x"}}]),
            "another account": changed(["spec", "serviceAccountName"], "other"),
            "a token": changed(["spec", "automountServiceAccountToken"], True),
            "a chosen node": changed(["spec", "nodeName"], "n"),
            "another image": changed(["spec", "containers", 0, "image"], "evil.example/x:1"),
            "another image before it": changed(["spec", "initContainers", 0, "image"], "evil.example/x:1"),
            "a privileged container": changed(["spec", "containers", 0, "securityContext"], dict(
                pod["spec"]["containers"][0]["securityContext"], privileged=True, allowPrivilegeEscalation=True)),
            "escalation": changed(["spec", "containers", 0, "securityContext", "allowPrivilegeEscalation"], True),
            "a capability": changed(["spec", "containers", 0, "securityContext", "capabilities", "add"], ["NET_BIND_SERVICE"]),
            "root": changed(["spec", "containers", 0, "securityContext", "runAsUser"], 0),
            "no filter": changed(["spec", "containers", 0, "securityContext", "seccompProfile"], {"type": "Unconfined"}),
            "a second container": changed(["spec", "containers"], pod["spec"]["containers"] + [
                dict(pod["spec"]["containers"][0], name="more")]),
            "another name": changed(["metadata", "name"], "other"),
            "no label": changed(["metadata", "labels"], {}),
        }
        equal(as_broker("POST", pods_of("sbx-lax") + "?dryRun=All", pod).status, 201, "the pod as the broker makes it")
        for what, body in tries.items():
            r = as_broker("POST", pods_of("sbx-lax") + "?dryRun=All", body)
            check(r.status == 403, f"{what}: {r}")
            check(b"ValidatingAdmissionPolicy 'mas-kube'" in r.body, f"{what} is refused by our policy: {r}")
        check(as_broker("POST", pods_of("kube-system") + "?dryRun=All", pod).status == 403, "a pod in another namespace")
        net = "/apis/networking.k8s.io/v1/namespaces/sbx-lax/networkpolicies"
        others = {
            "a namespace without the profile": (SPACES, {"metadata": dict(labels, name="sbx-laxer")}),
            "a namespace of another name": (SPACES, {"metadata": dict(labels, name="kube-x")}),
            "a policy that lets everything in": (net, {"metadata": dict(labels, name="sandbox"), "spec": {
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}]}}),
            "a policy of some pods": (net, {"metadata": dict(labels, name="sandbox"), "spec": {
                "podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress", "Egress"]}}),
            "a second policy": (net, {"metadata": dict(labels, name="more"), "spec": {
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{}]}}),
            "an account with a token": (f"{SPACES}/sbx-lax/serviceaccounts", {"metadata": dict(labels, name="sandbox")}),
            "a role": (COLLECTIONS["ClusterRole"], {"metadata": {"name": "x"}, "rules": []}),
            "a secret": (f"{SPACES}/sbx-victim/secrets", {"metadata": dict(labels, name="x")}),
            "a token of its own": ("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token", {"spec": {}}),
        }
        for what, (path, body) in others.items():
            r = as_broker("POST", path + "?dryRun=All", body)
            equal(r.status, 403, f"{what}: {r}")
        for path in ("/api/v1/secrets", "/api/v1/nodes", "/api/v1/configmaps", pods_of("sbx-victim") + "/sandbox/log"):
            equal(as_broker("GET", path).status, 403, path)
        equal(as_broker("DELETE", f"{SPACES}/kube-system?dryRun=All").status, 403, "another namespace")
        cluster.make(LEASES, {"metadata": {"name": "others"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 9}})
        for path in (LEASES + "/others", LEASES.replace("mas-sandbox", "kube-system") + "/kube-scheduler"):
            equal(as_broker("PATCH", path + "?dryRun=All", {"spec": {"holderIdentity": "y"}}, kind=MERGE).status, 403, path)
        cluster.call("DELETE", LEASES + "/others")
        victim = pods_of("sbx-victim") + "/sandbox"
        marks = {"metadata": {"labels": {"sbx.state": "ready"}, "annotations": {"sbx.last_exec_at": "1", "mas-sandbox/home": "x"}}}
        for path in (f"{SPACES}/sbx-victim", victim):
            equal(as_broker("PATCH", path + "?dryRun=All", marks, kind=MERGE).status, 200, f"marks of {path}")
            for what, body in (("a profile", {"labels": {"pod-security.kubernetes.io/enforce": None}}),
                               ("a label", {"labels": {"a": "b"}}), ("whose it is", {"labels": {"mas-sandbox/instance": "x"}}),
                               ("an annotation", {"annotations": {"a": "b"}}), ("a finalizer", {"finalizers": ["a.example/b"]})):
                if what == "a profile" and path == victim:
                    continue
                r = as_broker("PATCH", path + "?dryRun=All", {"metadata": body}, kind=MERGE)
                check(r.status == 403 and b"ValidatingAdmissionPolicy 'mas-kube'" in r.body, f"{what} of {path}: {r}")
        r = as_broker("PATCH", victim + "?dryRun=All", {"spec": {"activeDeadlineSeconds": 1}}, kind=MERGE)
        check(r.status == 403 and b"ValidatingAdmissionPolicy 'mas-kube'" in r.body, f"what a pod runs: {r}")
        equal(as_broker("PATCH", f"{SPACES}/kube-system?dryRun=All", marks, kind=MERGE).status, 403, "marks of another namespace")
        command = pods_of("sbx-victim") + "/sandbox/exec?stdout=true"
        r = as_broker("POST", command + "&container=link&command=/mas-link&command=--attach")
        check(r.status not in (403, 401), f"the link's own command: {r}")
        for what in ("container=sandbox&command=/mas-link&command=--attach", "container=link&command=/bin/sh",
                     "container=link&command=/mas-link&command=--attach&command=x"):
            r = as_broker("POST", f"{command}&{what}")
            check(r.status == 403 and b"ValidatingAdmissionPolicy 'mas-kube'" in r.body, f"{what}: {r}")
        b.do(order(DELETE, "victim"))


# --- what is told

def set_status(space, status):
    r = cluster.call("PATCH", pods_of(space) + "/sandbox/status", {"status": status}, kind=MERGE)
    equal(r.status, 200, r)


def terminated(reason, code):
    return {"containerStatuses": [{"name": "sandbox", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0,
                                   "state": {"terminated": {"reason": reason, "exitCode": code}}}]}


def ended(code, name):
    return [{"name": name, "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}}]


def prove(b, name, free, fenced):
    """Plays the two pods of a proof; returns its answer and whether there was a policy before the second code."""
    tag = b.send(order(PROVE, name))
    witness, caller = f"sbx-{name}", f"sbx-{name}-c"
    wait_for(lambda: cluster.get(pods_of(witness) + "/sandbox"), lambda: f"the witness: {b.log()}")
    equal(cluster.get(f"{POLICIES}/{witness}/networkpolicies/sandbox"), None, "the witness has no policy")
    set_status(witness, {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]})
    wait_for(lambda: cluster.get(pods_of(caller) + "/sandbox"), lambda: f"the caller: {b.log()}")
    spec = cluster.get(pods_of(caller) + "/sandbox")["spec"]
    equal([c["command"] for c in spec["initContainers"] + spec["containers"]],
          [["/mas-link", "--until-open", "10.1.2.3"], ["/mas-link", "--until-closed", "10.1.2.3"]], spec)
    equal(cluster.get(f"{POLICIES}/{caller}/networkpolicies/sandbox"), None, "it begins without a policy")
    set_status(caller, {"phase": "Pending", "initContainerStatuses": ended(free, "free")})
    if free == 0:
        wait_for(lambda: cluster.get(f"{POLICIES}/{caller}/networkpolicies/sandbox"), lambda: f"the policy: {b.log()}")
        equal(cluster.get(f"{POLICIES}/{caller}/networkpolicies/sandbox")["spec"],
              {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}, "nothing is allowed")
        set_status(caller, {"phase": "Failed" if fenced else "Succeeded", "containerStatuses": ended(fenced, "sandbox")})
    return b.answer(tag)


@case("the proof that policies are enforced: the same way is open without one and closed with it")
def proof():
    with broker() as b:
        r = prove(b, "wall-1", 0, 0)
        equal((r.error, r.text), (0, "10.1.2.3"), r)
        r = prove(b, "wall-2", 0, 4)
        check(r.error and "does not enforce NetworkPolicies" in r.text, r)
        r = prove(b, "wall-3", 3, 0)
        check(r.error and "even without a network policy" in r.text, r)
        tag = b.send(order(PROVE, "wall-4"))
        wait_for(lambda: cluster.get(pods_of("sbx-wall-4") + "/sandbox"), "the witness")
        b.do(order(DELETE, "wall-4"))
        r = b.answer(tag)
        check(r.error == CONFLICT and "given up" in r.text, r)
        b.do(order(CREATE, "taken"))
        r = b.ask(order(PROVE, "taken"))
        check(r.error == CONFLICT and cluster.get(pods_of("sbx-taken") + "/sandbox"), f"a sandbox is no witness: {r}")
        equal(b.ask(order(PROVE, "x" * 58)).error, INVALID, "there is no room for the second name")


@case("what becomes of a pod is told with its reason")
def reasons():
    waiting = {"containerStatuses": [{"name": "sandbox", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0,
                                      "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]}
    unplaced = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}
    drained = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m"}]}
    steps = [(dict(waiting, phase="Pending"), PENDING, b"ErrImagePull"), (dict(unplaced, phase="Pending", containerStatuses=[]),
                                                                          PENDING, b"Unschedulable"),
             ({"phase": "Running", "conditions": [], "containerStatuses": []}, RUNNING, b""), (dict(drained, phase="Running"), RUNNING,
                                                                        b"EvictionByEvictionAPI"),
             (dict(terminated("OOMKilled", 137), phase="Failed", conditions=[]), ENDED, b"OOMKilled"),
             ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource", "containerStatuses": []}, ENDED,
              b"Evicted")]
    with broker() as b:
        b.do(order(CREATE, "told"))
        b.wait_told(lambda r: r.name == "told" and r.phase == PENDING, "it exists")
        for status, phase, reason in steps:
            set_status("sbx-told", status)
            r = b.wait_told(lambda r: r.name == "told" and (r.phase, r.reason) == (phase, reason), f"{phase} {reason}")
        equal(r.text, "The node was low on resource")
        b.do(order(DELETE, "told"))
        r = b.wait_told(lambda r: r.name == "told" and r.phase == NONE, "it is gone")
        equal(r.reason, b"Evicted", "why it ended")


@case("the watch goes on over a killed API server and a killed etcd: nothing is missed")
def restarts():
    with broker() as b:
        b.do(order(CREATE, "stays"))
        b.wait_told(lambda r: r.name == "stays", "it exists")
        for part in ("API server", "etcd", "both"):
            if part != "etcd":
                cluster.kill_server()
            if part != "API server":
                cluster.kill_etcd()
                cluster.start_etcd()
            if part != "etcd":
                cluster.start_server()
            cluster.wait_ready()
            set_status("sbx-stays", {"phase": "Running", "message": part})
            b.told.clear()
            wait_for(lambda: b.list()["stays"].phase == RUNNING, f"the list after a killed {part}")
            set_status("sbx-stays", dict(terminated(f"After{len(part)}", 1), phase="Failed"))
            b.wait_told(lambda r: r.reason == f"After{len(part)}".encode(), f"a change after a killed {part}")
            set_status("sbx-stays", {"phase": "Running", "containerStatuses": []})
            b.wait_told(lambda r: r.name == "stays" and r.phase == RUNNING and not r.reason, "as before")
        equal(list(b.list()), ["stays"])
        b.do(order(DELETE, "stays"))


@case("after a compaction the watch lists again: what vanished meanwhile is told as gone, what came as new")
def compaction():
    with broker() as b, broker() as other:
        b.do(order(CREATE, "leaves"))
        b.do(order(CREATE, "remains"))
        wait_for(lambda: len(b.list()) == 2, "both are known")
        version = cluster.get("/api/v1/pods")["metadata"]["resourceVersion"]
        b.told.clear()
        b.process.send_signal(signal.SIGSTOP)
        other.do(order(DELETE, "leaves"))
        other.do(order(CREATE, "comes"))
        cluster.kill_server()
        cluster.compact()
        cluster.start_server()  # its memory of changes begins after the compaction
        r = cluster.call("GET", f"/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion={version}")
        check(b'"code":410' in r.body, f"the API server has forgotten where the watch was: {r}")
        b.process.send_signal(signal.SIGCONT)
        seen = {}

        def both_told():
            b.take(0.1)
            seen.update({r.name: r.phase for r in b.told})
            return seen.get("comes") == PENDING and seen.get("leaves") == NONE
        wait_for(both_told, lambda: f"what came and what left is told: {seen}")
        equal(sorted(b.list()), ["comes", "remains"])
        for name in ("comes", "remains"):
            b.do(order(DELETE, name))


@case("creates while the API server is killed: each is made once, or told to have failed and undone")
def killed_creates():
    names = [f"kill-{i}" for i in range(20)]
    with broker() as b:
        tags = {name: b.send(order(CREATE, name)) for name in names}
        b.answers[tags[names[0]]] = b.answer(tags[names[0]])  # some are made, others are on their way
        cluster.kill_server()
        cluster.start_server()
        replies = {name: b.answer(tag) for name, tag in tags.items()}
        made = sorted(name for name, r in replies.items() if r.error == 0)
        check(names[0] in made, replies)
        for name in made:
            pods = cluster.get(pods_of("sbx-" + name))["items"]
            equal([p["metadata"]["uid"] for p in pods], [replies[name].uid.decode()], name)
        wait_for(lambda: set(b.list()) >= set(made), "the list has what was made")
        for name in names:
            b.do(order(DELETE, name))
        equal(namespaces_left(), [], "what is left")


@case("a broker that is killed ends nothing; its successor knows all that there is")
def successor():
    with broker() as b:
        uid = b.do(order(CREATE, "kept", generation=3)).uid
        b.process.send_signal(signal.SIGKILL)
        b.process.wait()
    with broker() as b:
        found = b.list()
        equal({name: (r.uid, r.generation) for name, r in found.items()}, {"kept": (uid, 3)})
        b.connect()  # a control plane that comes again is told anew
        b.wait_told(lambda r: r.name == "kept" and r.uid == uid, "what there is")
        b.do(order(DELETE, "kept"))


@test("nothing of the last case is left")
def left():
    wait_for(lambda: not namespaces_left(), lambda: f"left: {namespaces_left()}")


main()
