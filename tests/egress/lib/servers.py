# SPDX-License-Identifier: Apache-2.0
"""The outer side: nginx, dnsmasq, sshd and two small servers of the test's own, in a network and a pid namespace that end
with this process. Started by world.py. nginx is at every address on 80, 8080 and 443; recorders are on 8000 and 25.

Of a connection to a recorder everything is kept as it came, for what a proxy sends on; it answers a request with hello.
The server for tricks.test answers each lookup of a name with the next of its answers, for names that change.
"""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

from files import make_files
from world import ALLOWED, DNS, OUTER, TRICKS, add_addresses, ip

NGINX = """user root;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/errors;
worker_processes 1;
events {{ worker_connections 512; }}
http {{
    log_format seen escape=json '{{"to":"$server_addr:$server_port","host":"$http_host","line":"$request","sni":"$ssl_server_name"}}';
    access_log {dir}/requests seen;
    client_body_temp_path {dir}/nginx-body;
    proxy_temp_path {dir}/nginx-proxy;
    fastcgi_temp_path {dir}/nginx-fastcgi;
    uwsgi_temp_path {dir}/nginx-uwsgi;
    scgi_temp_path {dir}/nginx-scgi;
    client_max_body_size 64m;
    default_type text/plain;
    types {{ text/html html; application/json json; application/octet-stream tgz whl; }}
    server {{
        listen 80; listen 8080; listen 443 ssl; listen [::]:80; listen [::]:8080; listen [::]:443 ssl;
        ssl_certificate {dir}/cert.pem;
        ssl_certificate_key {dir}/key.pem;
        root {dir}/www;
        location = / {{ return 200 "hello\\n"; }}
        location = /moved {{ return 302 http://allowed.test/; }}
        location = /to-denied {{ return 302 http://denied.test/; }}
        location = /to-denied-tls {{ return 302 https://denied.test/; }}
        location = /to-loopback {{ return 302 http://127.0.0.1/; }}
        location = /to-metadata {{ return 302 http://169.254.169.254/latest/meta-data/; }}
        location = /to-port {{ return 302 http://allowed.test:8080/; }}
        location = /to-self {{ return 302 http://self.test/; }}
        location = /to-file {{ return 302 file:///etc/passwd; }}
        location = /up {{ proxy_pass http://unix:{dir}/sink; proxy_request_buffering off; }}
        location /npm/ {{ default_type application/json; }}
        {locations}
    }}
}}
"""
SSHD = """Port 22
HostKey {dir}/ssh-host
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin forced-commands-only
AuthorizedKeysFile {dir}/ssh-authorized
"""


def write(path, text, mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


# --- DNS

def question(data):
    """Name, type and the end of the question of a DNS message."""
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin1"))
        at += 1 + data[at]
    return ".".join(labels).lower(), struct.unpack("!H", data[at + 1:at + 3])[0], at + 5


def dns_name(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def dns_records(owner, answer, kind, names):
    """The records of an answer, as bytes. A name that stands for another one comes with the other's addresses."""
    if isinstance(answer, str):
        other = answer.split()[1]
        return [dns_record(owner, 5, dns_name(other))] + dns_records(dns_name(other), names[other], kind, names)
    family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
    return [dns_record(owner, kind, socket.inet_pton(family, a)) for a in answer if (":" in a) == (kind == 28)] if family else []


def dns_record(owner, kind, value):
    return owner + struct.pack("!HHIH", kind, 1, 0, len(value)) + value


def serve_tricks(tricks, names):
    """Answers of a name change with each lookup; A and AAAA of one lookup are counted apart."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((TRICKS, 53))
    counts = {}
    while True:
        data, peer = sock.recvfrom(4096)
        name, kind, end = question(data)
        answers = tricks.get(name)
        turn = counts[name, kind] = counts.get((name, kind), -1) + 1
        answer = answers[min(turn, len(answers) - 1)] if answers else []
        if answer == "silent":
            continue
        records = dns_records(b"\xc0\x0c", answer, kind, names)
        flags = 0x8580 if answers else 0x8583
        out = data[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + data[12:end]
        sock.sendto(out + b"".join(records), peer)


# --- recorders

def record_one(conn, to, log):
    data = b""
    try:
        conn.settimeout(20)
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                break
            data += more
        conn.settimeout(0.5)  # what comes within a moment would be a second request
        try:
            while more := conn.recv(65536):
                data += more
        except OSError:
            pass
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
    except OSError:
        pass
    finally:
        log({"to": to, "data": data.decode("latin1")})
        conn.close()


def serve_recorder(family, port, log):
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(("", port))
    sock.listen(64)
    while True:
        conn, _ = sock.accept()
        to = f"{conn.getsockname()[0]}:{port}"
        threading.Thread(target=record_one, args=(conn, to, log), daemon=True).start()


def serve_sink(path):
    """Says how long a body was; nginx passes it on as it comes."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    sock.listen(8)
    while True:
        conn, _ = sock.accept()
        f = conn.makefile("rwb")
        want = 0
        while (line := f.readline().strip()):
            if line.lower().startswith(b"content-length:"):
                want = int(line.split(b":")[1])
        got = 0
        while got < want and (piece := f.read(min(65536, want - got))):
            got += len(piece)
        text = b"%d\n" % got
        f.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        f.close()
        conn.close()


# --- programs

def make_certificates(d, names):
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, stderr=subprocess.DEVNULL)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test CA",
            "-addext", "keyUsage=critical,keyCertSign", "-keyout", f"{d}/ca.key", "-out", f"{d}/ca.pem")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=allowed.test",
            "-keyout", f"{d}/key.pem", "-out", f"{d}/request.pem")
    write(f"{d}/extensions", "subjectAltName=" + ",".join([f"DNS:{name}" for name in names] + [f"IP:{ALLOWED}"]) + "\n")
    openssl("x509", "-req", "-in", f"{d}/request.pem", "-CA", f"{d}/ca.pem", "-CAkey", f"{d}/ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", f"{d}/extensions", "-out", f"{d}/cert.pem")


def make_ssh(d):
    for name in ("ssh-host", "ssh-user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"{d}/{name}"], check=True)
    with open(f"{d}/ssh-user.pub") as f:
        write(f"{d}/ssh-authorized", 'command="echo hello by ssh",restrict ' + f.read())
    write(f"{d}/sshd.conf", SSHD.format(dir=d))
    shutil.rmtree("/run/sshd", True)
    os.makedirs("/run/sshd", 0o755)


def make_dns(d, names):
    lines = ["keep-in-foreground", "user=root", "no-resolv", "no-hosts", "cache-size=0", "bind-interfaces", f"listen-address={DNS}",
             "log-queries", f"log-facility={d}/dns", f"pid-file={d}/dnsmasq.pid", "local=/test/", f"server=/tricks.test/{TRICKS}"]
    for name, addresses in names.items():
        lines += [f"host-record={name},{a}" for a in addresses]
    write(f"{d}/dnsmasq.conf", "\n".join(lines) + "\n")


def answers(address, port):
    try:
        socket.create_connection((address, port), 1).close()
        return True
    except OSError:
        return False


def main(d):
    print("namespace", flush=True)
    sys.stdin.readline()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    ip("link set lo up")
    add_addresses("veth1", OUTER)
    with open(f"{d}/world.json") as f:
        wish = json.load(f)
    make_certificates(d, wish["names"])
    make_ssh(d)
    make_files(f"{d}/www")
    make_dns(d, wish["names"])
    write(f"{d}/nginx.conf", NGINX.format(dir=d, locations=wish["locations"]))
    lock, out = threading.Lock(), open(f"{d}/recorded", "a")

    def log(event):
        with lock:
            out.write(json.dumps(event) + "\n")
            out.flush()

    for family in (socket.AF_INET, socket.AF_INET6):
        for port in (8000, 25):
            threading.Thread(target=serve_recorder, args=(family, port, log), daemon=True).start()
    threading.Thread(target=serve_tricks, args=(wish["tricks"], wish["names"]), daemon=True).start()
    threading.Thread(target=serve_sink, args=(f"{d}/sink",), daemon=True).start()
    errors = open(f"{d}/errors", "a")
    programs = [["nginx", "-c", f"{d}/nginx.conf"], ["dnsmasq", f"--conf-file={d}/dnsmasq.conf"],
                ["/usr/sbin/sshd", "-D", "-e", "-f", f"{d}/sshd.conf"]]
    started = [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors) for argv in programs]
    end = time.monotonic() + 60
    for address, port in ((ALLOWED, 80), (ALLOWED, 443), (ALLOWED, 8000), (ALLOWED, 25), (ALLOWED, 22), (DNS, 53)):
        while not answers(address, port):
            if time.monotonic() > end or any(p.poll() is not None for p in started):
                errors.write(f"nothing answers at {address}:{port}\n")
                sys.exit(1)
            time.sleep(0.02)
    print("ready", flush=True)
    sys.stdin.readline()  # until the script has ended


if __name__ == "__main__":
    main(sys.argv[1])
