#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One namespace for all sandboxes, as deploy/kube/shared ships it, judged by a real API server: the broker has roles in two
namespaces and none of the cluster, a create writes once, a delete takes the pod alone, and neither an order nor the
credential gets out of the namespace. test-pod.py runs such a pod."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from broker import *

enter()
ACCOUNT = "system:serviceaccount:mas-sandbox:mas-kube"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}]}
cluster = Cluster()
cluster.more = [f"--audit-policy-file={write(f'{HOME}/audit.json', json.dumps(AUDIT))}", f"--audit-log-path={HOME}/audit.log"]
cluster.start()
apply_objects(cluster, "base")
apply_objects(cluster, "shared")
MERGE = "application/merge-patch+json"
SPACE = "/api/v1/namespaces/mas-sandboxes"
PODS, POLICIES = SPACE + "/pods", "/apis/networking.k8s.io/v1/namespaces/mas-sandboxes/networkpolicies"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/mas-sandboxes/roles/mas-kube"
cluster.change(COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": {"link_image": LINK_IMAGE, "images": "docker.example/base:\n"}})
token = cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token",
                     {"spec": {"expirationSeconds": 7200}})["status"]["token"]


def broker(**ceiling):
    return Broker(kubeconfig=kubeconfig({}, {"token": token}), ceiling=dict({"shared_namespace": "mas-sandboxes"}, **ceiling))


def as_broker(method, path, body=None, **kw):
    return cluster.call(method, path, body, token=token, **kw)


# The API server takes a policy and a binding into use some time after it has them.
OPEN = {"metadata": {"name": "open"}, "spec": {"podSelector": {}, "egress": [{}]}}
wait_for(lambda: b"ValidatingAdmissionPolicy 'mas-kube'" in as_broker("POST", POLICIES + "?dryRun=All", OPEN).body,
         lambda: f"the admission policy is in use: {as_broker('POST', POLICIES + '?dryRun=All', OPEN)}")


def names(path):
    return sorted(o["metadata"]["name"] for o in cluster.get(path)["items"])


def pod_of(name):
    return cluster.get(f"{PODS}/sbx-{name}")


def writes():
    """What the broker has written so far: (verb, resource)."""
    events = [json.loads(line) for line in read(f"{HOME}/audit.log").splitlines()]
    return [(e["verb"], e["objectRef"]["resource"]) for e in events if e["verb"] in ("create", "update", "patch", "delete") and
            e["objectRef"]["resource"] not in ("selfsubjectaccessreviews", "leases") and e.get("responseStatus", {}).get("code", 0) < 300]


def written_by(b, o):
    before = len(writes())
    r = b.do(o)
    return r, writes()[before:]


@test("a create writes a policy and a pod, and the next with the same rules the pod alone; a delete takes the pod")
def create():
    with broker() as b:
        wait_for(lambda: b.ask(order(PROBE)).error == 0, lambda: f"all rights: {b.ask(order(PROBE))}")
        r, wrote = written_by(b, order(CREATE, "first", owner="key-1", spec='{"a":"b"}'))
        equal(wrote, [("create", "networkpolicies"), ("create", "pods")], "of the first")
        pod = pod_of("first")
        equal((pod["metadata"]["uid"], pod["spec"]["serviceAccountName"], pod["spec"]["hostname"]), (r.uid.decode(), "sandbox", "first"), pod)
        _, wrote = written_by(b, order(CREATE, "second"))
        equal(wrote, [("create", "pods")], "of the second")
        r, wrote = written_by(b, order(CREATE, "claims", workspace=Volume(volume=CLAIM, bytes=MIB, storage_class=b"fast"), ranges=[
            Range(family=4, bits=25, port_last=65535, address=(ctypes.c_uint8 * 16)(192, 0, 2))]))
        equal(wrote, [("create", "networkpolicies"), ("create", "pods")], "of one with other rules, and a claim")
        claim = [v["ephemeral"]["volumeClaimTemplate"]["spec"] for v in pod_of("claims")["spec"]["volumes"] if v["name"] == "workspace"][0]
        equal((claim["storageClassName"], claim["resources"]["requests"]["storage"]), ("fast", str(MIB)), claim)
        policies = {p["metadata"]["name"]: p["spec"] for p in cluster.get(POLICIES)["items"]}
        closed = policies.pop("closed")
        equal(closed["podSelector"], {"matchExpressions": [{"key": "mas-sandbox/net", "operator": "Exists"}]}, "every sandbox's")
        equal((set(closed["policyTypes"]), closed.get("ingress"), closed.get("egress")), ({"Ingress", "Egress"}, None, None), "it opens nothing")
        equal(len(policies), 2, policies)
        for name in ("first", "second", "claims"):
            labels = pod_of(name)["metadata"]["labels"]
            spec = policies["sandbox-" + labels["mas-sandbox/net"]]
            check(spec["podSelector"]["matchLabels"].items() <= labels.items(), f"{name} has its policy: {labels} {spec}")
            equal(sorted(spec["policyTypes"]), ["Egress", "Ingress"])
            equal("egress" in spec, name == "claims", spec)
        _, wrote = written_by(b, order(DELETE, "first"))
        equal(wrote, [("delete", "pods")], "of a delete")
        equal((names(PODS), pod_of("first")), (["sbx-claims", "sbx-second"], None), "what is left")
        check(cluster.get(SPACE)["status"]["phase"] == "Active", "the namespace stays")
        for name in ("first", "second", "claims"):
            b.do(order(DELETE, name))


@test("a policy that was changed by hand, a pod that is another's: not touched, and told")
def others():
    with broker() as b:
        b.do(order(CREATE, "one"))
        b.do(order(DELETE, "one"))
        path = [f"{POLICIES}/{p['metadata']['name']}" for p in cluster.get(POLICIES)["items"]
                if p["metadata"]["name"] != "closed" and "egress" not in p["spec"]][0]
        cluster.call("PATCH", path, {"spec": {"egress": [{}]}}, kind=MERGE)
        r = b.ask(order(CREATE, "one"))
        check(r.error == CONFLICT and "says something else than was written" in r.text and not pod_of("one"), r)
        cluster.call("DELETE", path)
        b.do(order(CREATE, "one"))
        cluster.make(PODS, {"metadata": {"name": "sbx-foreign"}, "spec": dict(
            pod_of("one")["spec"], nodeSelector={"no": "where"}, serviceAccountName="sandbox")})
        for o in (order(CREATE, "foreign"), order(DELETE, "foreign")):
            r = b.ask(o)
            check(r.error == CONFLICT and "not of this daemon" in r.text and pod_of("foreign"), r)
        cluster.call("DELETE", PODS + "/sbx-foreign")
        b.do(order(DELETE, "one"))


@test("a pod is listed, told, taken, marked and read without a namespace of its own, by the next broker, too")
def marks():
    with broker() as b:
        b.do(order(CREATE, "kept", owner="key-1", spec='{"a":"b"}'))
        b.wait_told(lambda r: r.name == "kept" and r.phase == PENDING, "it is there")
        equal(b.do(order(TAKE, "kept")).generation, 2, "its generation")
        b.do(order(MARK, "kept", generation=2, last_exec_s=1700000000, owner="key-2", spec='{"a":"c"}'))
        b.do(order(MARK, "kept", generation=2, state=2, last_exec_s=1700000001))  # which says nothing new but the time
        r = b.ask(order(MARK, "kept", generation=1, last_exec_s=1))
        check(r.error == CONFLICT and "later control plane" in r.text, r)
    notes = pod_of("kept")["metadata"]["annotations"]
    equal((notes["sbx.last_exec_at"], notes["mas-sandbox/owner"], notes["mas-sandbox/generation"]), ("1700000001", "key-2", "2"), notes)
    with broker() as b:  # which knows nothing but the cluster
        found = b.list()
        equal({n: (x.generation, x.last_exec_s, x.home) for n, x in found.items()}, {"kept": (2, 1700000001, b"here")}, found)
        r = b.do(order(READ, "kept"))
        equal((os.read(r.fds[0], 100), r.text), (b'{"a":"c"}', "key-2"), "what it says")
        os.close(r.fds[0])
        cluster.call("DELETE", PODS + "/sbx-kept")
        b.wait_told(lambda r: r.name == "kept" and r.phase == NONE, "its end")
    with broker(home="elsewhere") as b:
        b.do(order(CREATE, "theirs", home="elsewhere"))
    with broker() as b:
        wait_for(lambda: "theirs" in b.list(), "the other home's pod is known")
        for o in (order(DELETE, "theirs"), order(TAKE, "theirs"), order(CONNECT, "theirs")):
            r = b.ask(o)
            check(r.error == CONFLICT and "another control plane" in r.text, r)
    cluster.call("DELETE", PODS + "/sbx-theirs")


def ended(code, name):
    return [{"name": name, "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}}]


def set_status(name, status):
    r = cluster.call("PATCH", f"{PODS}/sbx-{name}/status", {"status": status}, kind=MERGE)
    equal(r.status, 200, r)


def chooses(policy, labels):
    selector = policy["spec"]["podSelector"]
    return (selector.get("matchLabels", {}).items() <= labels.items() and
            all(e["operator"] == "Exists" and e["key"] in labels for e in selector.get("matchExpressions", ())))


@test("the proof that policies are enforced has a policy of its caller's alone, which ends with it")
def proof():
    with broker() as b:
        b.do(order(CREATE, "beside"))  # whose policy must not hold the caller
        tag = b.send(order(PROVE, "wall-1"))
        wait_for(lambda: pod_of("wall-1"), lambda: f"the witness: {b.log()}")
        set_status("wall-1", {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]})
        wait_for(lambda: pod_of("wall-1-c"), lambda: f"the caller: {b.log()}")
        for name in ("wall-1", "wall-1-c"):
            labels = pod_of(name)["metadata"]["labels"]
            chosen = [p for p in cluster.get(POLICIES)["items"] if chooses(p, labels)]
            equal(chosen, [], f"policies of {name}")
        set_status("wall-1-c", {"phase": "Pending", "initContainerStatuses": ended(0, "free")})
        wait_for(lambda: cluster.get(f"{POLICIES}/sbx-wall-1-c"), lambda: f"its policy: {b.log()}")
        policy, pod = cluster.get(f"{POLICIES}/sbx-wall-1-c"), pod_of("wall-1-c")
        check(policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items(), policy)
        equal(policy["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"], policy)
        check("egress" not in policy["spec"] and "ingress" not in policy["spec"], policy)
        set_status("wall-1-c", {"phase": "Succeeded", "containerStatuses": ended(0, "sandbox")})
        r = b.answer(tag)
        equal((r.error, r.text), (0, "10.1.2.3"), r)
        for name in ("wall-1", "wall-1-c", "beside"):
            b.do(order(DELETE, name))


@test("every right of the role is asked for and missed when it is taken away, and there is none of the cluster's")
def rights():
    role = cluster.get(ROLE)
    for path in (COLLECTIONS["ClusterRole"] + "/mas-kube", COLLECTIONS["ClusterRoleBinding"] + "/mas-kube"):
        equal(cluster.get(path), None, path)
    for path in ("/api/v1/pods", "/api/v1/namespaces", "/api/v1/namespaces/default/pods", SPACE + "/persistentvolumeclaims"):
        equal(as_broker("GET", path).status, 403, path)
    for rule in role["rules"]:
        for verb in rule["verbs"]:
            rules = [dict(x, verbs=[v for v in x["verbs"] if x is not rule or v != verb] or ["none"]) for x in role["rules"]]
            equal(cluster.call("PATCH", ROLE, {"rules": rules}, kind=MERGE).status, 200, "the role")
            with broker() as b:
                wait_for(lambda: b.ask(order(PROBE)).text.endswith(f"no right to: {verb} {rule['resources'][0]}"),
                         lambda: f"the probe names {verb} {rule['resources'][0]}: {b.ask(order(PROBE))}")
    equal(cluster.call("PATCH", ROLE, {"rules": role["rules"]}, kind=MERGE).status, 200, "the role")
    with broker() as b:
        wait_for(lambda: b.ask(order(PROBE)).error == 0, "all rights again")


def refused(what, r):
    check(r.status == 403 and b"ValidatingAdmissionPolicy 'mas-kube'" in r.body, f"{what}: {r}")


@test("the credential by itself is held to sandboxes: names, labels, policies that never widen, no other pod's end")
def credential():
    with broker() as b:
        b.do(order(CREATE, "victim"))
        good = pod_of("victim")
        labels = good["metadata"]["labels"]
        pod = {"metadata": {"name": "sbx-other", "labels": dict(labels, **{"mas-sandbox/id": "other"})},
               "spec": {k: v for k, v in good["spec"].items() if k not in ("nodeName", "priority", "preemptionPolicy")}}
        equal(as_broker("POST", PODS + "?dryRun=All", pod).status, 201, "the pod as the broker makes it")
        bare = {k: v for k, v in labels.items() if k != "mas-sandbox/net"}
        for what, metadata in (("another name", {"name": "other", "labels": labels}), ("another's id", {"name": "sbx-other", "labels": labels}),
                               ("no policy", {"name": "sbx-victim2", "labels": dict(bare, **{"mas-sandbox/id": "victim2"})})):
            refused(what, as_broker("POST", PODS + "?dryRun=All", dict(pod, metadata=metadata)))
        claim = {"name": "c", "persistentVolumeClaim": {"claimName": "another"}}
        spec = dict(pod["spec"], volumes=pod["spec"]["volumes"] + [claim])
        refused("a claim that is not its own", as_broker("POST", PODS + "?dryRun=All", dict(pod, spec=spec)))
        net, both = labels["mas-sandbox/net"], {"policyTypes": ["Ingress", "Egress"]}
        for what, name, chosen, more in (
                ("a policy of another name for the same pods", "sandbox-x", {"mas-sandbox/net": net}, {"egress": [{}]}),
                ("one that opens a single pod", "sbx-victim", {"mas-sandbox/id": "victim"}, {"egress": [{}]}),
                ("one of all pods", "sandbox", {}, {"egress": [{}]}), ("one that lets in", "sandbox-y", {"mas-sandbox/net": "y"}, {"ingress": [{}]})):
            refused(what, as_broker("POST", POLICIES + "?dryRun=All", {
                "metadata": {"name": name, "labels": bare}, "spec": dict(both, podSelector={"matchLabels": chosen} if chosen else {}, **more)}))
        equal(as_broker("DELETE", f"{POLICIES}/sandbox-{net}?dryRun=All").status, 403, "the end of a policy, after which a wider one could be made")
        for label in ("mas-sandbox/net", "mas-sandbox/id"):
            refused(label, as_broker("PATCH", f"{PODS}/sbx-victim?dryRun=All", {"metadata": {"labels": {label: "x"}}}, kind=MERGE))
        cluster.make(PODS, {"metadata": {"name": "sbx-theirs"}, "spec": dict(pod["spec"], nodeSelector={"no": "where"})})
        refused("the end of a pod that is another's", as_broker("DELETE", PODS + "/sbx-theirs?dryRun=All"))
        equal(as_broker("DELETE", PODS + "/sbx-victim?dryRun=All").status, 200, "the end of its own")
        for path, body in (("/api/v1/namespaces", {"metadata": {"name": "sbx-x", "labels": bare}}),
                           (SPACE + "/serviceaccounts", {"metadata": {"name": "sandbox2", "labels": bare}}),
                           ("/api/v1/namespaces/mas-sandbox/pods", pod)):
            equal(as_broker("POST", path + "?dryRun=All", body).status, 403, path)
        equal(as_broker("DELETE", SPACE).status, 403, "the namespace itself")
        cluster.call("DELETE", PODS + "/sbx-theirs")
        b.do(order(DELETE, "victim"))


@test("policies are deleted only where the operator gave both the rights and the setting, and then only those of sandboxes")
def sweep():
    with broker() as b:
        b.do(order(CREATE, "swept"))
        own = f"{POLICIES}/sandbox-{pod_of('swept')['metadata']['labels']['mas-sandbox/net']}"
        b.do(order(DELETE, "swept"))
    for name in ("other", "sandbox-theirs"):
        cluster.make(POLICIES, {"metadata": {"name": name, "labels": {} if "theirs" in name else {"app.kubernetes.io/managed-by": "mas-sandbox"}},
                                "spec": {"podSelector": {"matchLabels": {"a": "b"}}}})
    for path in (own, POLICIES + "/closed"):
        equal(as_broker("DELETE", path + "?dryRun=All").status, 403, f"without the rights: {path}")
    equal(as_broker("GET", POLICIES).status, 403, "and the list")
    apply_objects(cluster, "sweep")
    settings = COLLECTIONS["ConfigMap"] + "/mas-kube"
    for value in (None, "false"):  # as by one who gave the rights alone
        cluster.change(settings, {"data": {"sweep_policies": value}})
        wait_for(lambda: b"ValidatingAdmissionPolicy 'mas-kube'" in as_broker("DELETE", own + "?dryRun=All").body,
                 lambda: f"without the setting: {as_broker('DELETE', own + '?dryRun=All')}")
    apply_objects(cluster, "sweep")
    wait_for(lambda: as_broker("DELETE", own + "?dryRun=All").status == 200, lambda: f"with both: {as_broker('DELETE', own + '?dryRun=All')}")
    equal(as_broker("GET", POLICIES).status, 200, "the list")
    for name in ("closed", "other", "sandbox-theirs"):
        refused(name, as_broker("DELETE", f"{POLICIES}/{name}?dryRun=All"))
    with broker() as b:
        equal(b.ask(order(PROBE)).error, 0, "all rights, as before")


main()
