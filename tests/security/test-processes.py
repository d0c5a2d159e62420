#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every process of ours that faces hostile bytes has a list of system calls (P22 of SECURITY.md): each is started,
looked at in /proc, and made to try what a taken-over one would. A process that is not in the table fails the test."""
import base64
import itertools
import os
import subprocess
import sys
import threading

if os.geteuid() == 0 and not os.environ.get("MAS_OWN_NET"):  # links and rules of mas-net are in a network of this script's own
    os.environ["MAS_OWN_NET"] = "1"
    script = "ip link set lo up && sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 && exec \"$@\""
    os.execvp("unshare", ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, *sys.argv])

from attempt import *
from takeover import NAMESPACES, confined, control, refuses, status_of

CAPS = {name: 1 << n for n, name in enumerate(
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service net_broadcast "
    "net_admin".split())} | {"sys_ptrace": 1 << 19}


def caps(*names):
    return sum(CAPS[n] for n in names)


KEEPER = caps("chown", "dac_override", "fowner", "kill", "net_bind_service", "setgid", "setuid")
RUNNER = caps("kill", "setgid", "setuid")

# Who has which capabilities at the most: in the bounding set, and in effect.
CONFINED = {
    "control plane": (0, 0),
    "gateway": (0, 0),
    "image keeper": (KEEPER, KEEPER),       # of a user namespace with three ids
    "image worker": (KEEPER, KEEPER),
    "image outlet": (KEEPER, 0),
    "skopeo": (KEEPER, 0),
    "interceptor": (0, 0),
    "mas-net": (caps("net_admin"), caps("net_admin")),
    "runner": (RUNNER, RUNNER),             # of the sandbox's user namespace
    "command": (RUNNER, 0),
    "mas-vmm": (RUNNER, RUNNER),            # in a sandbox of local
    "emulator": (RUNNER, RUNNER),
    "launcher": (0, 0),
    "fence keeper": (0, caps("kill", "dac_override", "dac_read_search", "fowner", "sys_ptrace")),
}
# What takes orders from the warden alone, which makes the namespaces.
TRUSTED = ("warden", "janitor", "zygote")
# Programs of others, which have walls of their own around a kernel of their own.
FOREIGN = ("runsc",)


def role(pid, warden):
    exe, comm, words = program_of(pid), name_of(pid), words_of(pid)
    if exe == "mas-sandboxd" or pid == warden:
        return {"mas-gateway": "gateway", "mas-images": "image keeper", "mas-control": "control plane",
                "mas-image-job": "image worker", "mas-image-way": "image outlet"}.get(comm, "warden" if pid == warden else comm)
    if exe == "mas-toolrunner":
        return "zygote" if comm == "mas-zygote" else "runner" if "--pid1" in words or "--fd" in words else comm
    return {"mas-intercept": "interceptor", "mas-oci": "launcher", "mas-keeper": "fence keeper", "mas-janitor": "janitor",
"sleep": "command",
            "qemu-system-x86_64": "emulator"}.get(comm if exe == "mas-warden" else exe, exe)


def look(d, *wanted):
    """Every process below the daemon is one of the table's and has what that says; the wanted ones are among them."""
    warden = d.get("/v1/status").json["warden_pid"]
    seen = {}
    for pid in [d.process.pid, *below(d.process.pid)]:
        name = role(pid, warden)
        if lives(pid):  # else the name may be that of nothing
            seen.setdefault(name, []).append(pid)
    print("#", {name: len(pids) for name, pids in seen.items()})
    for name in set(seen) - set(TRUSTED + FOREIGN):
        looked_at = list(itertools.islice((p for p in seen[name] if is_confined(p, name)), 2))
        check(looked_at or name not in wanted, f"every {name} ended before it was looked at")
    for name in wanted:
        check(name in seen, f"no {name} was there to be looked at")


def is_confined(pid, name):
    """Whether it lived long enough to be looked at: then it has what the table says."""
    try:
        check(name in CONFINED, f"{name}: a process that the table does not have: {command_of(pid)}")
        confined(pid, name, *CONFINED[name])
    except (AssertionError, KeyError, OSError):
        if lives(pid):
            raise
        return False
    return True


def start(sb):
    a = sb.daemon.post(sb.path + "/exec", {"command": ["sleep", "600"], "async": True})
    check(a.status in (200, 201, 202), a)


@test("P22 control: a process without walls can be made to make a namespace, by each of the three calls")
def test_p22_control_a_process_without_walls():
    control()


@test("P22 control plane, gateway, image keeper with its children, interceptor, mas-net and runner have lists of system calls")
def test_p22_control_plane_gateway_image_keeper():
    silent = socket.create_server(("127.0.0.1", 0))  # a registry that never answers
    registry = "127.0.0.1:%d" % silent.getsockname()[1]
    secret = tempfile.NamedTemporaryFile(prefix="mas-secret-")
    secret.write(b"s3cret")
    secret.flush()
    config = 'network_cidrs: ["11.0.0.0/8"]\n'
    with Daemon("-images-registries", registry, "-images-insecure-registries", registry, "-gateway-allow-private", registry, "-images-pull-timeout", "60s", "-secrets",
                f"api=file:{secret.name} allowed.test Authorization: Bearer {{}}", config=config) as d:
        pull = threading.Thread(target=lambda: d.post("/v1/images/pull", {"image": f"{registry}/a:1"}))
        pull.start()
        fetching = silent.accept()[0]
        with d.sandbox(network={"allow": [{"host": "allowed.test"}], "inject": ["api"], "intercept": True}) as sb, \
                d.sandbox(network={"cidrs": ["11.0.0.0/24"]}):
            start(sb)
            look(d, "warden", "control plane", "gateway", "image keeper", "image worker", "image outlet", "skopeo", "interceptor", "mas-net", "runner",
                 "command", "zygote")
            equal(sb.sh("echo here")["stdout"], "here\n", "what was tried in them has not ended them")
        silent.close()
        fetching.close()
        pull.join()


VM = ("microvm",) if os.environ.get("MAS_MICROVM_DIR") else ()  # as scripts/check-microvm.sh sets it
for runtime in ("crun", "runc", "gvisor", "landlock") + VM:
    @test(f"P22 the processes of a sandbox of {runtime} have lists of system calls")
    def test_p22_the_processes_of_a_sandbox(runtime=runtime):
        with Daemon(*(("--create-ready-timeout", "300s") if runtime in VM else ()), runtime=runtime, config="oci_blanks: 0\n") as d:
            a = d.post("/v1/sandboxes", {}, timeout=300)
            if a.status != 201:
                raise Skip(a.json["error"]["message"])
            sb = Sandbox(d, a.json)
            start(sb)
            if runtime == "landlock":
                look(d, "fence keeper", "runner", "command")
            elif runtime in VM:
                look(d, "mas-vmm", "emulator")
            else:
                look(d, "launcher", *(() if runtime == "gvisor" else ("runner", "command")))
            equal(sb.sh("echo here")["stdout"], "here\n", "what was tried in them has not ended them")
            sb.delete()


def key_of(d, name):
    """The bytes of a key in the warden's directory, as a process that uses it has them in its memory."""
    with open(f"{d.state}/warden/{name}", "rb") as f:
        text = f.read()
    if not text.startswith(b"-----"):
        return text
    return base64.b64decode(b"".join(text.split(b"\n")[1:-2]))[-32:]  # at the end of what PKCS #8 says of an Ed25519 key


@test("P26 P31 no process that was forked from the warden has the keys that the warden signs and opens seals with")
def test_p26_p31_no_process_that_was_forked():
    with Daemon("-enable-process", config="default_disk_mb: 64\n") as d:
        warden = d.get("/v1/status").json["warden_pid"]
        keys = {name: key_of(d, name) for name in ("secret.key", "audit.key")}
        a = d.post("/v1/sandboxes", {"runtime": "landlock"})
        if a.status != 201:
            raise Skip(a.json["error"]["message"])
        made = [Sandbox(d, a.json)]
        for more in ({}, {"runtime": "process", "accept_weaker": ["memory", "cpu", "processes", "disk"]}):
            a = d.post("/v1/sandboxes", more)
            check(a.status == 201, a)
            made.append(Sandbox(d, a.json))
        for name, key in keys.items():
            equal(len(key), 32, name)
            check(memory_has(warden, key), f"control: the warden has {name}")
        others = [p for p in below(warden)]
        names = {name_of(p) for p in others}
        check({"mas-janitor", "mas-keeper"} <= names, names)
        equal({(name_of(p), name) for p in others for name, key in keys.items() if memory_has(p, key)}, set(), "who else has a key")
        for sb in made:
            sb.delete()


main()
