# SPDX-License-Identifier: Apache-2.0
"""Everything that comes over the wire to the outer side, as lines of text.

`seen()` is what has come since the last `mark()`. Packets of connections that began before the mark are not new, neighbour
discovery is not the sandbox's: both are left out. Everything else counts, whatever protocol it is. A marker that is
sent after what is tested comes behind it on the same wire, so nothing hopes for a time that is long enough.
"""
import os
import socket
import struct
import time

import world as w

ETH_ARP, ETH_IP, ETH_IP6 = 0x0806, 0x0800, 0x86dd
SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING = 263, 6, 4
GRACE_S = 0.05  # for another processor that is just about to send


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
        def open_socket():
            s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            s.bind(("veth1", 3))
            return s
        self.sock = world.in_outer(open_socket)
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.sock.settimeout(10)
        self.marker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.flows = set()
        self.count = 0
        self.lines = []

    def _transport(self, proto, source, to, data):
        """A line, or None for a packet of a connection that is known."""
        if proto == 6 and len(data) >= 14:
            sport, port = struct.unpack("!HH", data[:4])
            flow = (source, sport, to, port)
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

    def _drain(self):
        """All that came before a marker that is sent now."""
        time.sleep(GRACE_S)
        self.count += 1
        mark = b"marker %d %d" % (os.getpid(), self.count)
        self.marker.sendto(mark, (w.OTHER, 9))
        while True:
            data, where = self.sock.recvfrom(65535)
            if data.endswith(mark):
                break
            if where[2] == PACKET_OUTGOING:
                self._know_own(data, where[1])
            elif line := self._line(data, where[1]):
                self.lines.append(line)
        dropped = struct.unpack("II", self.sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        if dropped:
            self.lines.append(f"{dropped} packets that were not looked at")

    def mark(self):
        """Forgets what came so far, and returns it."""
        self._drain()
        lines, self.lines = self.lines, []
        return lines

    def seen(self):
        self._drain()
        return list(self.lines)
