#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What virtual machines promise, each as a ratio with a peer that is measured in turns. Needs root and QEMU.

    microvm.py BUILD [DIR]         DIR: what machines start from (default /var/cache/mas-sandbox/microvm; made if missing)

Prints `name<TAB>ratio<TAB><=<TAB>promise`. A machine of another size than the usual boots, so both kinds of start are
measured in one daemon. All of it is software emulation: QEMU is started with "-accel tcg" whether or not the host has
/dev/kvm. To measure with KVM, replace that argument and "-cpu qemu64" in src/vmm/qemu.c by "kvm" and "host", let the
sandbox's emulator open /dev/kvm (group kvm, and the device in the cell's root), and run the same script.
ROUNDS (5) and CLONES (10) can be set."""
import os
import pty
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tty

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from density import Daemon, children, timed

ROUNDS = int(os.environ.get("ROUNDS", "5"))
CLONES = int(os.environ.get("CLONES", "10"))
COMMAND = {"command": ["/bin/true"]}
OTHER_SIZE = {"limits": {"memory_mb": 300}}  # no usual size: boots
WAIT_S = 300


class Machines(Daemon):
    """A daemon whose sandboxes are machines."""

    def __init__(self, build, place, blanks=0):
        super().__init__(build, 50, f"runtime: microvm\nmicrovm_dir: {place}\nmicrovm_blanks: {blanks}\n"
                                    f"create_ready_timeout: {WAIT_S}s\n", WAIT_S)

    def emulators(self):
        return [e for vmm in children(self.status["warden_pid"]) for e in children(vmm) if is_emulator(e)]

    def await_idle(self):
        """Until the machines that are made ahead wait: their emulators have used no processor for a while."""
        end, last = time.monotonic() + WAIT_S, None
        while time.monotonic() < end:
            used = {e: cpu_ticks(e) for e in self.emulators()}
            if len(used) >= 2 and last and all(e in last and used[e] - last[e] < 3 for e in used):
                self.connection = None  # the daemon closes one that is idle for so long
                self.ask("GET", "/v1/status")
                return
            last = used
            time.sleep(1)
        raise RuntimeError("the machines that are made ahead are never ready")


def cpu_ticks(pid):
    """Of all its threads."""
    with open(f"/proc/{pid}/stat") as f:
        return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13])


def is_emulator(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().startswith(b"/usr/bin/qemu-system")
    except OSError:
        return False


def first_exec(daemon, spec):
    """Microseconds from the request for a sandbox to the end of its first command, and how its machine came to be."""
    def both():
        sandbox = daemon.ask("POST", "/v1/sandboxes", spec)
        daemon.ask("POST", f"/v1/sandboxes/{sandbox['id']}/exec", COMMAND)
        return sandbox
    us, sandbox = timed(both)
    daemon.ask("DELETE", f"/v1/sandboxes/{sandbox['id']}")
    return us, sandbox["effective"]["machine"]


def restored_to_cold(daemon):
    daemon.ask("DELETE", "/v1/sandboxes/" + daemon.ask("POST", "/v1/sandboxes", {})["id"])  # the one that is kept
    restored, cold = [], []
    for _ in range(ROUNDS):
        for spec, samples, origin in (({}, restored, "restored"), (OTHER_SIZE, cold, "booted")):
            us, machine = first_exec(daemon, spec)
            if machine != origin:
                raise RuntimeError(f"a machine with {spec} was {machine}")
            samples.append(us)
    return statistics.median(restored), statistics.median(cold)


class Console:
    """The same kernel, machine, emulator and root with a login shell on a serial console, which starts again after each
    exit. The programs have to be the guest's own: an emulator translates a program that is linked dynamically anew each
    time it runs, because it is at other addresses, and one that is linked statically only once."""

    def __init__(self, build, place, work):
        tree = f"{work}/tree"
        os.makedirs(tree)
        subprocess.run(["/usr/sbin/debugfs", "-R", f"rdump / {tree}", f"{place}/root.img"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(f"{tree}/init", "w") as f:
            f.write("#!/bin/busybox sh\n/bin/busybox mount -t devtmpfs d /dev\n/bin/busybox mount -t proc p /proc\n"
                    "while :; do /bin/busybox setsid /bin/busybox cttyhack /bin/busybox login -f root; done\n")
        with open(f"{tree}/etc/passwd", "w") as f:
            f.write("root::0:0:root:/:/bin/sh\n")
        with open(f"{tree}/etc/inputrc", "w") as f:  # the terminal shows lines, and no marks around them
            f.write("set enable-bracketed-paste off\n")
        os.chmod(f"{tree}/init", 0o755)
        subprocess.run(f"cd {tree} && find . | cpio -o -H newc --quiet -R 0:0 > {work}/initramfs", shell=True, check=True)
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        self.fd = ours
        khz = int(subprocess.run([f"{build}/tests/microvm/clock-rate"], check=True, stdout=subprocess.PIPE).stdout)
        self.process = subprocess.Popen(
            ["/usr/bin/qemu-system-x86_64", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-M",
             "microvm,x-option-roms=off,rtc=off,isa-serial=on", "-accel", "tcg,thread=multi,tb-size=64", "-cpu", "qemu64",
             "-m", "512", "-smp", "1,maxcpus=2", "-kernel", f"{place}/vmlinux", "-initrd", f"{work}/initramfs", "-append",
             f"console=ttyS0 quiet loglevel=1 tsc=reliable tsc_early_khz={khz}", "-serial", "stdio"],
            stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, close_fds=True)
        os.close(theirs)
        self.read_until("# ", WAIT_S)

    def read_until(self, text, seconds=60):
        seen, end = "", time.monotonic() + seconds
        while text not in seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"the console never said {text!r}: {seen[-500:]!r}")
            seen += os.read(self.fd, 4096).decode(errors="replace")
        return seen

    def session(self):
        """One command in a session of its own: the one that waits is used, and the next is there at the end."""
        os.write(self.fd, b"/bin/true; echo do''ne; exit\n")
        self.read_until("\ndone")
        self.read_until("# ")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


def exec_to_console(daemon, build, place):
    work = tempfile.mkdtemp(dir="/var/tmp", prefix="mas-bench.")
    sandbox = daemon.ask("POST", "/v1/sandboxes", {})
    path = f"/v1/sandboxes/{sandbox['id']}"
    console = Console(build, place, work)
    ours, theirs = [], []
    try:
        for i in range(4 * ROUNDS + 2):
            samples = [timed(lambda: daemon.ask("POST", f"{path}/exec", COMMAND))[0], timed(console.session)[0]]
            if i >= 2:
                ours.append(samples[0])
                theirs.append(samples[1])
    finally:
        console.close()
        shutil.rmtree(work)
        daemon.ask("DELETE", path)
    return statistics.median(ours), statistics.median(theirs)


def emulator_pss(pid):
    """In KiB: of the guest's memory alone, of the whole emulator, and of that without the code that it has translated,
    which is what it has mapped to be both written and executed. With KVM there is none."""
    parts, part = {"guest": 0, "code": 0, "other": 0}, None
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            if re.match(r"[0-9a-f]+-", line):
                part = "guest" if "machine-memory" in line else "code" if line.split()[1].startswith("rwx") else "other"
            elif line.startswith("Pss:"):
                parts[part] += int(line.split()[1])
    return parts["guest"], sum(parts.values()), parts["guest"] + parts["other"]


def clone_memory(daemon):
    """emulator_pss() of the last of CLONES copies, each beside that of the first while it was alone."""
    made = []
    try:
        for _ in range(CLONES):
            before = set(daemon.emulators())
            made.append(daemon.ask("POST", "/v1/sandboxes", {})["id"])
            daemon.ask("POST", f"/v1/sandboxes/{made[-1]}/exec", COMMAND)
            newest = (set(daemon.emulators()) - before).pop()
            if len(made) == 1:
                first = emulator_pss(newest)
        return list(zip(emulator_pss(newest), first))
    finally:
        for name in made:
            daemon.ask("DELETE", f"/v1/sandboxes/{name}")


def pool_to_cold(build, place, cold):
    """One-shot calls that find a machine waiting."""
    daemon = Machines(build, place, 2)
    hits = []
    try:
        while len(hits) < ROUNDS:
            daemon.await_idle()
            hits.append(timed(lambda: daemon.ask("POST", "/v1/run", COMMAND))[0])
    finally:
        daemon.close()
    return statistics.median(hits), cold


def main():
    build = os.path.abspath(sys.argv[1])
    place = sys.argv[2] if len(sys.argv) > 2 else "/var/cache/mas-sandbox/microvm"
    machine = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts/microvm/machine.sh")
    subprocess.run([machine, place, build], check=True, stdout=subprocess.DEVNULL)

    def row(name, pair, promise):
        print(f"{name}\t{pair[0] / pair[1]:.3f}\t<=\t{promise}", flush=True)
        print(f"# {name}: {pair[0]:.0f} / {pair[1]:.0f}", file=sys.stderr, flush=True)

    daemon = Machines(build, place)
    try:
        restored, cold = restored_to_cold(daemon)
        row("microvm: restore to first exec / boot to first exec", (restored, cold), 0.15)
        row("microvm: exec / login shell on the serial console", exec_to_console(daemon, build, place), 0.5)
        guest, whole, no_code = clone_memory(daemon)
        row(f"microvm: memory of guest {CLONES} / of the first (PSS)", guest, 0.35)
        row("microvm: the same with its emulator, which translates code", whole, 0.35)
        row("microvm: the same with its emulator, without that code", no_code, 0.35)
    finally:
        daemon.close()
    row("microvm: one-shot call from the pool / with a boot", pool_to_cold(build, place, cold), 0.05)


if __name__ == "__main__":
    main()
