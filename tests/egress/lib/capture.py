# SPDX-License-Identifier: Apache-2.0
"""Everything that comes over the wire to the outer side, and over the inner side's own loopback, as lines of text.

`seen()` is what has come since the last `mark()`. Packets of connections that began before the mark are not new, neighbour
discovery is not the sandbox's: both are left out. Everything else counts, whatever protocol it is. The script itself speaks
with its daemon from an address of its own (HARNESS), which is left out as well. A marker that is sent after what is
tested comes behind it on the same wire, so nothing hopes for a time that is long enough.
"""
import os
import socket
import struct
import time

import world as w

ETH_ARP, ETH_IP, ETH_IP6 = 0x0806, 0x0800, 0x86dd
SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING = 263, 6, 4
GRACE_S = 0.05  # for another processor that is just about to send
HARNESS = "127.0.0.77"


def speak_as_harness():
    """Connections of this process to the loopback come from HARNESS."""
    plain = socket.create_connection

    def connect(address, timeout=None, source_address=None, **more):
        source = source_address or ((HARNESS, 0) if address[0] == "127.0.0.1" else None)
        return plain(address, timeout, source, **more)
    socket.create_connection = connect


def parse_name(data):
    labels, at = [], 12
    try:
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin1"))
            at += 1 + data[at]
        return ".".join(labels).lower()
    except IndexError:
        return "?"


class Capture:
    def __init__(self, world):
        def open_socket(device):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            s.bind((device, 3))
            s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            s.settimeout(10)
            return s
        self.marker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sink.bind((HARNESS, 0))
        self.wires = [(world.in_outer(lambda: open_socket("veth1")), (w.OTHER, 9)), (open_socket("lo"), self.sink.getsockname())]
        speak_as_harness()
        self.flows = set()
        self.count = 0
        self.lines = []
        self.payload = {}  # bytes that TCP carried since the last mark, by address and port

    def _transport(self, proto, source, to, data):
        """A line, or None for a packet of a connection that is known."""
        if HARNESS in (source, to):
            return None
        if proto == 6 and len(data) >= 14:
            sport, port = struct.unpack("!HH", data[:4])
            flow = (source, sport, to, port)
            self.payload[to, port] = self.payload.get((to, port), 0) + len(data) - (data[12] >> 4) * 4
            if data[13] & 0x12 == 0x02:
                new = flow not in self.flows
                self.flows.add(flow)
                return f"tcp {to} {port}" if new else None
            return None if flow in self.flows else f"tcp {to} {port} without a beginning"
        if proto == 17 and len(data) >= 8:
            port = struct.unpack("!H", data[2:4])[0]
            return f"dns {parse_name(data[8:])}" if port == 53 and to == w.DNS else f"udp {to} {port}"
        if proto == 58 and data and 130 <= data[0] <= 137 or proto == 58 and data and data[0] == 143:
            return None  # neighbours and multicast listeners, by the kernel itself
        return f"{ {1: 'icmp', 58: 'icmp6'}.get(proto, f'protocol {proto}')} {to}"

    def _line(self, data, kind):
        if kind == ETH_ARP or not data:
            return None
        if kind == ETH_IP:
            at = (data[0] & 15) * 4
            return self._transport(data[9], socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), data[at:])
        if kind == ETH_IP6:
            proto, at = data[6], 40
            if proto == 0 and len(data) > 42:  # hop by hop
                proto, at = data[40], 48 + data[41] * 8
            return self._transport(proto, socket.inet_ntop(socket.AF_INET6, data[8:24]),
                                   socket.inet_ntop(socket.AF_INET6, data[24:40]), data[at:])
        return f"ethernet {kind:#x}"

    def _know_own(self, data, kind):
        """A connection that the outer side opens is not the inner's doing: its answers are known."""
        if kind == ETH_IP and data[9] == 6:
            at = (data[0] & 15) * 4
            sport, port = struct.unpack("!HH", data[at:at + 4])
            if data[at + 13] & 0x12 == 0x02:
                self.flows.add((socket.inet_ntoa(data[16:20]), port, socket.inet_ntoa(data[12:16]), sport))

    def _drain(self, grace_s=GRACE_S):
        """All that came before a marker that is sent now."""
        time.sleep(grace_s)
        self.count += 1
        mark = b"marker %d %d" % (os.getpid(), self.count)
        for wire, to in self.wires:
            self.marker.sendto(mark, to)
            self._drain_wire(wire, mark)
        self.sink.recv(100)

    def _drain_wire(self, wire, mark):
        while True:
            data, where = wire.recvfrom(65535)
            if data.endswith(mark):
                break
            if where[2] == PACKET_OUTGOING:
                self._know_own(data, where[1])
            elif line := self._line(data, where[1]):
                self.lines.append(line)
        dropped = struct.unpack("II", wire.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        if dropped:
            self.lines.append(f"{dropped} packets that were not looked at")

    def mark(self, grace_s=GRACE_S):
        """Forgets what came so far, and returns it."""
        self._drain(grace_s)
        lines, self.lines, self.payload = self.lines, [], {}
        return lines

    def seen(self):
        self._drain()
        return list(self.lines)
