#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A program with Firecracker's command line, API and vsock socket, whose machine is QEMU's by software emulation.

It takes what firecracker-api.json has, in the order that Firecracker wants, and refuses the rest as Firecracker does
(400 with a fault_message). The guest's vsock is a real one: this is the other side of QEMU's vhost-user-vsock device, with
Firecracker's "CONNECT" and "OK" on a Unix socket. What it cannot do is keep a machine: the file of a snapshot has the
configuration, a restored machine boots, and the connections that the kept one had are made once more and reset, which is
how a guest sees a restore.

Every request is written to /workspace/requests, with its answer. The test puts API_TEXT and CLOCK_KHZ before these lines."""
import collections
import ctypes
import fcntl
import json
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys

QEMU = "/usr/bin/qemu-system-x86_64"
HOST_CID, FIRST_PORT = 2, 1 << 30
BUFFER = 256 * 1024
PIECE = 3072  # of what a packet carries; a buffer of the guest's holds that with the header, and not 4000 bytes
REQUEST, RESPONSE, RST, SHUTDOWN, RW, CREDIT_UPDATE, CREDIT_REQUEST = range(1, 8)
HEADER = struct.Struct("<QQIIIHHIII")

if "API_TEXT" not in globals():
    with open(os.path.join(os.path.dirname(__file__), "firecracker-api.json")) as api_file:
        API_TEXT = api_file.read()
API = json.loads(API_TEXT)


# --- what a body may have

def fault_of(value, kind, place):
    """What is wrong with a value, or None."""
    name, _, rest = kind.partition(":")
    if kind.startswith("[$"):
        if not isinstance(value, list):
            return f"{place} is not a list"
        return next(filter(None, (fault_of(v, kind[1:-1], place) for v in value)), None)
    if kind.startswith("$"):
        inner = API["types"][kind[1:]]
        return fault_of(value, inner, place) if isinstance(inner, str) else fault_of_object(value, inner, place)
    if name == "boolean":
        return None if isinstance(value, bool) else f"{place} is not a boolean"
    if name == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{place} is not an integer"
        low, _, high = rest.partition("-")
        return f"{place} is out of range" if (low and value < int(low)) or (high and value > int(high)) else None
    if not isinstance(value, str):
        return f"{place} is not a string"
    return f"unknown variant `{value}` of {place}" if rest and value not in rest.split("|") else None


def fault_of_object(value, members, place):
    if not isinstance(value, dict):
        return f"{place} is not an object"
    kinds = {name.rstrip("!"): kind for name, kind in members.items()}
    for name in value:
        if name not in kinds:
            return f"unknown field `{name}` in {place}"
    for name in members:
        if name.endswith("!") and name[:-1] not in value:
            return f"missing field `{name[:-1]}` in {place}"
    return next(filter(None, (fault_of(v, kinds[n], n) for n, v in value.items())), None)


def find_request(method, path):
    for key, row in API["requests"].items():
        wanted, pattern = key.split(" ")
        m = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[A-Za-z0-9_]+)", pattern), path)
        if wanted == method and m:
            return pattern, row, m.groupdict()
    return None, None, None


class Fault(Exception):
    pass


# --- vsock: the other side of QEMU's device

class Memory:
    """The guest's, as the regions that QEMU has told us of."""

    def __init__(self, regions, fds):
        self.regions = []
        for (guest, size, user, offset), fd in zip(regions, fds):
            self.regions.append((guest, size, user, offset, mmap.mmap(fd, size + offset)))
            os.close(fd)

    def at_user(self, address):
        for _, size, user, offset, data in self.regions:
            if user <= address < user + size:
                return data, address - user + offset
        raise Fault("an address of the ring is nowhere")

    def at_guest(self, address):
        for guest, size, _, offset, data in self.regions:
            if guest <= address < guest + size:
                return data, address - guest + offset
        raise Fault("an address of the guest's is nowhere")


class Queue:
    def __init__(self):
        self.num = self.last = 0
        self.addresses = None
        self.kick = self.call = -1

    def is_ready(self):
        return self.addresses is not None and self.kick >= 0

    def next_chain(self, memory):
        """The next chain that the guest offers: (its id, [(data, offset, length, writable)]); or None."""
        desc, used, avail = self.addresses
        data, at = memory.at_user(avail)
        if struct.unpack_from("<H", data, at + 2)[0] == self.last & 0xffff:
            return None
        head = struct.unpack_from("<H", data, at + 4 + 2 * (self.last % self.num))[0]
        parts, i = [], head
        while True:
            table, base = memory.at_user(desc)
            address, length, flags, following = struct.unpack_from("<QIHH", table, base + 16 * i)
            parts.append((*memory.at_guest(address), length, bool(flags & 2)))
            if not flags & 1:
                break
            i = following
        self.last += 1
        return head, parts

    def give_back(self, memory, head, length):
        data, at = memory.at_user(self.addresses[1])
        index = struct.unpack_from("<H", data, at + 2)[0]
        struct.pack_into("<II", data, at + 4 + 8 * (index % self.num), head, length)
        struct.pack_into("<H", data, at + 2, (index + 1) & 0xffff)
        if self.call >= 0:
            os.write(self.call, struct.pack("<Q", 1))


class Connection:
    """Between a client of the socket, or nobody, and a port of the guest's."""

    def __init__(self, sock, guest_port, host_port):
        self.sock, self.guest_port, self.host_port = sock, guest_port, host_port
        self.open = self.client_ended = self.guest_ended = False
        self.out = b""  # from the guest, that the client has not taken
        self.taken = self.told = 0  # bytes from the guest: that have gone on, and that it knows of
        self.sent = 0  # bytes to the guest
        self.credit, self.guest_taken = 0, 0

    def room(self):
        return self.credit - (self.sent - self.guest_taken)


class Vsock:
    def __init__(self, cid, path):
        self.cid = cid
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)  # an error where the path is there, as with Firecracker
        self.listener.listen(16)
        self.listener.setblocking(False)
        self.device = socket.socket(socket.AF_UNIX)
        if os.path.exists(path + ".device"):
            os.unlink(path + ".device")
        self.device.bind(path + ".device")
        self.device.listen(1)
        self.vhost = None
        self.memory = None
        self.queues = [Queue(), Queue(), Queue()]
        self.pending = collections.deque()
        self.connections = {}
        self.greeting = {}  # clients that have not said where to, and what they said
        self.next_port = FIRST_PORT
        self.lost = []  # ports whose connections a restored guest has still to lose

    # vhost-user

    def take_device(self):
        self.vhost, _ = self.device.accept()

    def receive_exactly(self, size):
        data, fds = b"", []
        while len(data) < size:
            part, more, _, _ = socket.recv_fds(self.vhost, size - len(data), 8)
            if not part:
                raise Fault("QEMU is gone")
            data, fds = data + part, fds + list(more)
        return data, fds

    def on_vhost(self):
        head, fds = self.receive_exactly(12)
        kind, flags, size = struct.unpack("<III", head)
        body, more = self.receive_exactly(size) if size else (b"", [])
        answer = self.obey(kind, body, fds + more)
        if answer is None and flags & 8:
            answer = struct.pack("<Q", 0)
        if answer is not None:
            self.vhost.sendall(struct.pack("<III", kind, 5, len(answer)) + answer)

    def obey(self, kind, body, fds):
        def number():
            return struct.unpack("<Q", body[:8])[0]
        if kind == 1:  # features: version 1, and those of the protocol
            return struct.pack("<Q", 1 << 32 | 1 << 30)
        if kind == 15:  # of the protocol: replies, and the configuration
            return struct.pack("<Q", 1 << 3 | 1 << 9)
        if kind == 17:
            return struct.pack("<Q", len(self.queues))
        if kind == 24:
            offset, size, flags = struct.unpack_from("<III", body)
            config = struct.pack("<Q", self.cid)
            return struct.pack("<III", offset, size, flags) + config[offset:offset + size].ljust(size, b"\0")
        if kind == 5:
            n = struct.unpack_from("<I", body)[0]
            self.memory = Memory([struct.unpack_from("<QQQQ", body, 8 + 32 * i) for i in range(n)], fds)
        elif kind == 8:
            index, n = struct.unpack_from("<II", body)
            self.queues[index].num = n
        elif kind == 9:
            index, _, desc, used, avail, _ = struct.unpack_from("<IIQQQQ", body)
            self.queues[index].addresses = (desc, used, avail)
        elif kind == 10:
            index, n = struct.unpack_from("<II", body)
            self.queues[index].last = n
        elif kind == 11:
            index = struct.unpack_from("<I", body)[0]
            self.queues[index].addresses = None
            return struct.pack("<II", index, self.queues[index].last & 0xffff)
        elif kind in (12, 13):
            q = self.queues[number() & 0xff]
            setattr(q, "kick" if kind == 12 else "call", fds[0] if fds else -1)
        return None

    # packets

    def is_active(self):
        return self.memory is not None and self.queues[0].is_ready() and self.queues[1].is_ready()

    def send(self, c, op, data=b"", flags=0):
        self.pending.append((HEADER.pack(HOST_CID, self.cid, c.host_port, c.guest_port, len(data), 1, op, flags, BUFFER,
                                         c.taken & 0xffffffff), data))
        c.told = c.taken
        c.sent += len(data)

    def flush(self):
        while self.pending and self.is_active():
            chain = self.queues[0].next_chain(self.memory)
            if not chain:
                return
            header, data = self.pending.popleft()
            rest = header + data
            for where, at, length, _ in chain[1]:
                where[at:at + min(length, len(rest))] = rest[:length]
                rest = rest[length:]
            if rest:
                raise Fault(f"a buffer of the guest's is {len(rest)} bytes too small")
            self.queues[0].give_back(self.memory, chain[0], len(header) + len(data))

    def take_packets(self):
        while self.is_active():
            chain = self.queues[1].next_chain(self.memory)
            if not chain:
                return
            whole = b"".join(bytes(where[at:at + length]) for where, at, length, _ in chain[1])
            self.queues[1].give_back(self.memory, chain[0], 0)
            self.on_packet(HEADER.unpack_from(whole), whole[HEADER.size:])

    def on_packet(self, header, data):
        _, _, guest_port, host_port, length, _, op, flags, credit, taken = header
        c = self.connections.get((host_port, guest_port))
        if not c:
            if op != RST:
                self.send(Connection(None, guest_port, host_port), RST)
            return
        c.credit, c.guest_taken = credit, taken
        if op == RESPONSE:
            c.open = True
            if c.sock:
                c.sock.send(b"OK %d\n" % c.host_port)
        elif op == RW:
            c.out += data[:length]
            if not c.sock:  # of a connection that the guest is to lose
                self.drop(c, True)
                self.lost.remove(c.guest_port)
        elif op == RST:
            self.drop(c, False)
        elif op == SHUTDOWN:
            c.guest_ended = c.guest_ended or bool(flags & 2)
            c.client_ended = c.client_ended or bool(flags & 1)
        elif op == CREDIT_REQUEST:
            self.send(c, CREDIT_UPDATE)

    def drop(self, c, tell):
        if tell:
            self.send(c, RST)
        self.connections.pop((c.host_port, c.guest_port), None)
        if c.sock:
            c.sock.close()

    def open_connection(self, sock, port):
        c = Connection(sock, port, self.next_port)
        self.next_port += 1
        self.connections[(c.host_port, port)] = c
        self.send(c, REQUEST)

    # clients

    def on_client(self):
        sock, _ = self.listener.accept()
        sock.setblocking(False)
        self.greeting[sock] = b""

    def on_greeting(self, sock):
        """Only the line: what follows is the guest's."""
        byte = self.read(sock, 1)
        if byte is None:
            return
        text = self.greeting[sock] = self.greeting[sock] + byte
        m = re.fullmatch(rb"CONNECT ([0-9]+)\n", text)
        if m:
            del self.greeting[sock]
            self.open_connection(sock, int(m.group(1)))
        elif not byte or len(text) > 32 or text.endswith(b"\n"):
            del self.greeting[sock]
            sock.close()

    @staticmethod
    def read(sock, size):
        try:
            return sock.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def on_data(self, c):
        data = self.read(c.sock, min(PIECE, c.room()))
        if data:
            self.send(c, RW, data)
        elif data == b"":
            c.client_ended = True
            self.send(c, SHUTDOWN, flags=2)

    def deliver(self, c):
        if c.out and c.sock:
            try:
                n = c.sock.send(c.out)
            except BlockingIOError:
                return
            except OSError:
                return self.drop(c, True)
            c.out = c.out[n:]
            c.taken += n
            if c.taken - c.told > BUFFER // 4:
                self.send(c, CREDIT_UPDATE)
        if c.sock and c.guest_ended and not c.out:
            try:
                c.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            if c.client_ended:
                self.drop(c, True)

    def lose_connections(self):
        """One attempt after another, as the guest does not listen while it boots."""
        for port in self.lost:
            if not [c for c in self.connections.values() if c.guest_port == port]:
                self.open_connection(None, port)

    def prepare(self, poll, handlers):
        def watch(fd, mask, handler):
            poll.register(fd, mask)
            handlers[fd if isinstance(fd, int) else fd.fileno()] = handler
        if self.vhost:
            watch(self.vhost, select.POLLIN, lambda _: self.on_vhost())
        for q in self.queues[:2]:
            if q.kick >= 0:
                watch(q.kick, select.POLLIN, lambda _, q=q: os.read(q.kick, 8))
        if self.is_active() and not self.lost:  # before that, clients wait
            watch(self.listener, select.POLLIN, lambda _: self.on_client())
        for sock in self.greeting:
            watch(sock, select.POLLIN, lambda _, s=sock: self.on_greeting(s))
        for c in self.connections.values():
            mask = select.POLLIN if c.open and not c.client_ended and c.room() > 0 and len(self.pending) < 64 else 0
            mask |= select.POLLOUT if c.out else 0
            if c.sock and mask:
                watch(c.sock, mask, lambda ready, c=c: self.on_data(c) if ready & (select.POLLIN | select.POLLHUP) and c.room() > 0 and
                      not c.client_ended and c.open else None)

    def turn(self):
        self.take_packets()
        if self.is_active():
            self.lose_connections()
        for c in list(self.connections.values()):
            self.deliver(c)
        self.flush()


# --- the machine

def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


class Machine:
    def __init__(self, config):
        self.config = config
        self.state = "Not started"
        self.vsock = None
        self.qemu = None

    def command(self):
        size, boot = self.config["/machine-config"], self.config["/boot-source"]
        line = f"{boot.get('boot_args', '')} tsc_early_khz={CLOCK_KHZ} tsc=reliable reboot=t"
        args = [QEMU, "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
                "-M", "microvm,x-option-roms=off,rtc=off,memory-backend=memory", "-accel", "tcg,thread=multi,tb-size=64",
                "-cpu", "qemu64", "-serial", "stdio", "-m", str(size["mem_size_mib"]),
                "-smp", f"{size['vcpu_count']},maxcpus={max(2, size['vcpu_count'])}",  # see src/vmm/qemu.c
                "-object", f"memory-backend-memfd,id=memory,size={size['mem_size_mib']}M,share=on",
                "-kernel", boot["kernel_image_path"], "-initrd", boot["initrd_path"], "-append", line]
        # The root device is the first, the others come as they were put; none has a serial number.
        drives = sorted((d for p, d in self.config.items() if p.startswith("/drives/")), key=lambda d: not d["is_root_device"])
        for i, d in enumerate(drives):
            only = ",readonly=on" if d.get("is_read_only") else ""
            args += ["-drive", f"id=drive{i},file={d['path_on_host']},format=raw,if=none{only}",
                     "-device", f"virtio-blk-device,drive=drive{i}"]
        return args + ["-chardev", f"socket,id=vsock,path={self.config['/vsock']['uds_path']}.device",
                       "-device", "vhost-user-vsock-device,chardev=vsock"]

    def start(self, lost=()):
        for needed in ("/machine-config", "/boot-source", "/vsock"):
            if needed not in self.config:
                raise Fault(f"{needed} is not configured")
        v = self.config["/vsock"]
        self.vsock = Vsock(v["guest_cid"], v["uds_path"])
        self.vsock.lost = list(lost)
        keep = [int(p.rsplit("/", 1)[1]) for p in (d["path_on_host"] for n, d in self.config.items() if n.startswith("/drives/"))
                if p.startswith("/proc/self/fd/")]
        self.qemu = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, preexec_fn=die_with_parent, pass_fds=keep)
        self.vsock.take_device()
        self.state = "Running"

    def pause(self, on):
        os.kill(self.qemu.pid, signal.SIGSTOP if on else signal.SIGCONT)
        self.state = "Paused" if on else "Running"


class Api:
    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(16)
        self.connections = {}
        self.machine = Machine({})
        self.log = open("/workspace/requests", "a")
        self.log.write(json.dumps(["KVM", kvm_version(), None, None]) + "\n")
        self.log.flush()

    def on_client(self):
        sock, _ = self.listener.accept()
        self.connections[sock] = b""

    def on_data(self, sock):
        data = sock.recv(65536)
        if not data:
            del self.connections[sock]
            return sock.close()
        self.connections[sock] += data
        while self.serve_one(sock):
            pass

    def serve_one(self, sock):
        data = self.connections[sock]
        head, sep, rest = data.partition(b"\r\n\r\n")
        if not sep:
            return False
        lines = head.decode("ascii").split("\r\n")
        headers = {n.lower(): v.strip() for n, v in (x.split(":", 1) for x in lines[1:])}
        size = int(headers.get("content-length", 0))
        if len(rest) < size:
            return False
        self.connections[sock] = rest[size:]
        method, path, version = lines[0].split(" ")
        fault = "the version is not HTTP/1.1" if version != "HTTP/1.1" else self.answer(method, path, rest[:size])
        if fault is None:  # as Firecracker has it: no reason, and no length without a body
            sock.sendall(b"HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n")
            return True
        body = json.dumps({"fault_message": fault}).encode()
        sock.sendall(b"HTTP/1.1 400 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return True

    def answer(self, method, path, text):
        fault = None
        try:
            self.do(method, path, text)
        except Fault as e:
            fault = str(e)
        except ValueError as e:
            fault = f"An error occurred when deserializing the json body of a request: {e}"
        except OSError as e:
            fault = str(e)
        self.log.write(json.dumps([method, path, json.loads(text) if text else None, fault]) + "\n")
        self.log.flush()
        return fault

    def do(self, method, path, text):
        pattern, row, ids = find_request(method, path)
        if not row:
            raise Fault(f"Invalid request method and/or path: {method} {path}.")
        body = json.loads(text)
        fault = fault_of(body, "$" + row[0], row[0])
        if fault:
            raise Fault(f"An error occurred when deserializing the json body of a request: {fault}.")
        for name, value in ids.items():
            if body.get(name) != value:
                raise Fault(f"The id from the path [{value}] does not match the id from the body [{body.get(name)}]!")
        started = self.machine.state != "Not started"
        if row[1] != "any" and started != (row[1] == "after"):
            raise Fault(f"The requested operation is not supported {'after' if started else 'before'} starting the microVM.")
        if row[1] == "before" and pattern != "/snapshot/load":
            self.configure(pattern, path, body)
        else:
            getattr(self, "do" + re.sub(r"\W", "_", pattern))(body)

    def configure(self, pattern, path, body):
        if pattern == "/machine-config" and body["vcpu_count"] > 1 and body["vcpu_count"] % 2:
            raise Fault("The vCPU number is invalid! The vCPU number can only be 1 or an even number when SMT is enabled.")
        for name in ("kernel_image_path", "initrd_path", "path_on_host"):
            if name in body and not os.access(body[name], os.R_OK):
                raise Fault(f"{name}: {body[name]}: No such file or directory (os error 2)")
        roots = [p for p, d in self.machine.config.items() if p.startswith("/drives/") and d["is_root_device"] and p != path]
        if pattern.startswith("/drives/") and body["is_root_device"] and roots:
            raise Fault("A root block device already exists!")
        self.machine.config[path] = body
        if pattern == "/metrics":
            with open(body["metrics_path"], "wb", buffering=0) as f:
                f.write(b'{"utc_timestamp_ms":0}\n')

    def do_actions(self, body):
        started = self.machine.state != "Not started"
        if body["action_type"] == "InstanceStart":
            if started:
                raise Fault("The requested operation is not supported after starting the microVM.")
            self.machine.start()
        elif not started:
            raise Fault("The requested operation is not supported before starting the microVM.")

    def do_vm(self, body):
        self.machine.pause(body["state"] == "Paused")

    def do_balloon(self, body):
        pass

    def do_snapshot_create(self, body):
        if self.machine.state != "Paused":
            raise Fault("Cannot save the microVM state: the microVM is running.")
        ports = [c.guest_port for c in self.machine.vsock.connections.values() if c.open]
        with open(body["mem_file_path"], "wb") as f:
            f.truncate(self.machine.config["/machine-config"]["mem_size_mib"] << 20)
        with open(body["snapshot_path"], "wb") as f:
            f.write(json.dumps([self.machine.config, ports]).encode())

    def do_snapshot_load(self, body):
        if set(self.machine.config) - {"/logger", "/metrics"}:
            raise Fault("Loading a microVM snapshot not allowed after configuring boot-specific resources.")
        if ("mem_backend" in body) == ("mem_file_path" in body):
            raise Fault("exactly one of mem_backend and mem_file_path must be there")
        if body["mem_backend"]["backend_type"] != "File" or not body.get("resume_vm"):
            raise Fault("this program restores from a file, and resumes")
        with open(body["snapshot_path"], "rb") as f:
            self.machine.config, ports = json.loads(f.read())
        size = os.stat(body["mem_backend"]["backend_path"]).st_size
        if size != self.machine.config["/machine-config"]["mem_size_mib"] << 20:
            raise Fault(f"the file of the memory has {size} bytes")
        self.machine.start(lost=ports)

    def turn(self):
        poll, handlers = select.poll(), {}
        for sock, handler in [(self.listener, lambda _: self.on_client())] + [
                (s, lambda _, s=s: self.on_data(s)) for s in self.connections]:
            poll.register(sock, select.POLLIN)
            handlers[sock.fileno()] = handler
        vsock = self.machine.vsock
        if vsock:
            vsock.prepare(poll, handlers)
        for fd, ready in poll.poll(20 if vsock and vsock.lost else 500):
            handlers[fd](ready)
        if self.machine.vsock:
            self.machine.vsock.turn()
        if self.machine.qemu and self.machine.qemu.poll() is not None:
            sys.exit(0)


def kvm_version():
    """What the kernel says of /dev/kvm, which Firecracker opens by this name; None where it cannot be used."""
    try:
        fd = os.open("/dev/kvm", os.O_RDWR)
        return fcntl.ioctl(fd, 0xae00)
    except OSError:
        return None


def main():
    if sys.argv[1:2] != ["--api-sock"] or len(sys.argv) != 3:
        sys.exit(f"Arguments parsing error: {sys.argv[1:]}")
    api = Api(sys.argv[2])
    while True:
        try:
            api.turn()
        except Fault as e:
            sys.exit(str(e))


main()
