# SPDX-License-Identifier: Apache-2.0
"""Servers inside sandboxes, and requests to them, for the suites about ports."""
import os

from masd import check, equal, wait_for

DOMAIN = "ports.test"
CSP = "sandbox allow-scripts allow-forms"


def start_server(d, sb, port=8080, host="127.0.0.1", **kw):
    with open(os.path.join(os.path.dirname(__file__), "port-server.py"), "rb") as f:
        a = d.put(sb.path + "/files/content?path=/workspace/server.py", f.read(), **kw)
    equal(a.status, 200, a)
    a = d.post(sb.path + "/exec", {"command": ["/usr/bin/python3", "/workspace/server.py", host, str(port)], "async": True}, **kw)
    check(a.status in (200, 202), a)
    wait_for(lambda: d.get(f"{sb.path}/ports/{port}/echo", **kw).status == 200, f"a server at {port}")
    return sb


def port(sb, path, number=8080):
    return f"{sb.path}/ports/{number}{path}"


def seen(answer):
    equal(answer.status, 200, answer)
    return {n.lower(): v for n, v in answer.json["fields"]}


def hold(d, sb):
    """A connection whose answer has begun and does not end."""
    s = d.connect()
    path = port(sb, "/hold?" + b"HTTP/1.1 200 OK\r\n\r\nx".hex())
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return s


def host_of(sb, number=8080):
    return f"{number}-{sb.id}.{DOMAIN}"
