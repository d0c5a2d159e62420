#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""the MAS API's line protocol: one JSON object a line in, one out, in order, and nothing else."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MIB = 1024 * 1024


def lines(data, *flags, timeout=60, env=None):
    """Runs the daemon over this input; its answers, parsed, and its stderr."""
    if not isinstance(data, bytes):
        data = "".join(json.dumps(x) + "\n" if isinstance(x, dict) else x for x in data).encode()
    p = subprocess.run([SANDBOXD, *flags], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=timeout, env=dict(os.environ, **(env or {})))
    equal(p.returncode, 0, p.stderr.decode(errors="replace")[-2000:])
    check(p.stdout == b"" or p.stdout.endswith(b"\n"), "the last line has no end")
    return [json.loads(x) for x in p.stdout.splitlines()], p.stderr.decode(errors="replace")


def calc(number, expression="1+1", **more):
    return dict({"id": f"c{number}", "tool": "calculator", "args": {"expression": expression}}, **more)


def shell(number, command, **more):
    return dict({"id": f"s{number}", "tool": "shell", "args": {"command": command}}, **more)


@test("an answer has the members of the contract, empty ones left out")
def test_an_answer_has_the_members_of_the_contract_empty():
    (a, b, c), _ = lines([calc(1, "15*8+7"), {"id": "x", "tool": "nothing", "args": {}}, shell(2, "exit 7")])
    equal(set(a), {"id", "result", "exit_code", "duration"})
    equal((a["id"], a["result"], a["exit_code"]), ("c1", {"expression": "15*8+7", "result": 127}, 0))
    equal({k: v for k, v in b.items() if k != "duration"}, {"id": "x", "error": "tool not found", "exit_code": 1})
    equal((c["exit_code"], c["result"]["exit_code"]), (7, 7))
    check(c["error"], c)
    for answer in (a, b, c):
        check(re.fullmatch(r"0s|(\d+(\.\d+)?(ns|µs|ms|s|m|h))+", answer["duration"]), answer)


@test("a duration grows with the call")
def test_a_duration_grows_with_the_call():
    (a,), _ = lines([shell(1, "sleep 1.2")])
    check(re.fullmatch(r"1\.\d+s", a["duration"]), a)


@test("answers come in request order, a slow one first")
def test_answers_come_in_request_order_a_slow_one_first():
    out, _ = lines([shell(1, "sleep 0.5; echo slow"), calc(2), shell(3, "echo three"), calc(4)])
    equal([o["id"] for o in out], ["s1", "c2", "s3", "c4"])
    equal(out[0]["result"]["stdout"], "slow\n")


@test("bad lines are answered and the next line is served")
def test_bad_lines_are_answered_and_the_next_line():
    bad = ["not json\n", "{\n", "[]\n", "null\n", '{"id":1,"tool":"calculator"}\n', '{"id":"t"}\n',
           '{"id":"a","id":"b","tool":"calculator"}\n', '{"id":"p","tool":"calculator","policy":3}\n',
           '{"id":"n","tool":"calculator","args":{"expression":"\\u0000"}}\n', "[" * 5000 + "\n"]
    out, _ = lines([x for b in bad for x in (b, calc(9))])
    equal(len(out), 2 * len(bad))
    for i, b in enumerate(bad):
        answer, after = out[2 * i], out[2 * i + 1]
        equal(answer["exit_code"], 1, b)
        check(answer["error"].startswith("invalid request: "), (b[:40], answer))
        equal(after["result"]["result"], 2, b)
    for answer in (out[0], out[2], out[4], out[6]):
        equal((answer["id"], answer["duration"]), ("", "0s"))


@test("bytes that are no UTF-8, NUL bytes and carriage returns")
def test_bytes_that_are_no_utf_8_nul_bytes_and_carriage():
    ok = json.dumps(calc(1)).encode()
    out, _ = lines(b'{"id":"\xff","tool":"calculator"}\n' + b"\0\n" + ok + b"\r\n" + b"\n  \n" + ok + b"\n")
    equal([o["exit_code"] for o in out], [1, 1, 0, 0])


@test("a last line without its end is served")
def test_a_last_line_without_its_end_is_served():
    out, _ = lines(json.dumps(calc(1)).encode())
    equal(out[0]["result"]["result"], 2)


@test("no input: no output, exit 0")
def test_no_input_no_output_exit_0():
    equal(lines(b"")[0], [])


@test("a line of 10 MiB is served, a longer one is answered and skipped")
def test_a_line_of_10_mib_is_served_a_longer():
    def padded(n):
        base = json.dumps(calc(1, pad="")).encode()
        return base[:-2] + b"x" * (n - len(base)) + b'"}'
    fits, over = padded(10 * MIB), padded(10 * MIB + 1)
    equal(len(fits), 10 * MIB)
    out, _ = lines(fits + b"\n" + over + b"\n" + padded(35 * MIB) + b"\n" + json.dumps(calc(2)).encode() + b"\n")
    equal([o["id"] for o in out], ["c1", "", "", "c2"])
    check("over" in out[1]["error"] and out[1]["exit_code"] == 1, out[1])


@test("content of 9 MiB goes into a file and back")
def test_content_of_9_mib_goes_into_a_file_and_back():
    text = "y" * (9 * MIB)
    policy = {"AllowedPaths": ["/workspace"]}
    out, _ = lines([{"id": "w", "tool": "file_system", "policy": policy,
                     "args": {"action": "write", "path": "/workspace/f", "content": text}}])
    equal(out[0]["result"]["success"], True)


@test("only protocol lines on stdout; no line of the log parses as an answer")
def test_only_protocol_lines_on_stdout_no_line_of_the_log():
    _, log = lines([calc(1), "oops\n", shell(2, "echo '{\"id\":\"fake\"}' >&2")], "--log-level", "debug")
    check(log, "no log at all")
    for line in log.splitlines():
        try:
            json.loads(line)
        except ValueError:
            continue
        raise AssertionError(f"a log line parses as JSON: {line}")


@test("a JSON log line is not taken for an answer")
def test_a_json_log_line_is_not_taken_for_an_answer():
    _, log = lines([calc(1)], "--log-format", "json")
    for line in log.splitlines():
        check(not {"id", "exit_code", "duration"} & set(json.loads(line)), line)


@test("the policy is enforced here as over HTTP")
def test_the_policy_is_enforced_here_as_over_http():
    out, _ = lines([calc(1, policy={"AllowedTools": ["fetch"]}),
                    {"id": "2", "tool": "fetch", "args": {"url": "http://example.com/"}},
                    {"id": "3", "tool": "file_system", "args": {"action": "list", "path": "/"}},
                    shell(4, "sleep 9", policy={"Timeout": 200_000_000}),
                    shell(5, "cat /workspace/x; ls /tmp", policy={"AllowedPaths": ["/home/sandbox"]})])
    equal([o.get("error") for o in out[:3]], ["tool not allowed", "network disabled", "path not allowed"])
    check("timed out" in out[3]["error"], out[3])
    check(out[4]["exit_code"] != 0 and "Permission denied" in out[4]["result"]["stderr"], out[4])


@test("each line is its own sandbox")
def test_each_line_is_its_own_sandbox():
    out, _ = lines([shell(1, "echo x > /workspace/f"), shell(2, "ls /workspace")])
    equal(out[1]["result"]["stdout"], "")


@test("the state directory is private, temporary and gone afterwards; no processes stay")
def test_the_state_directory_is_private_temporary():
    place = tempfile.mkdtemp(prefix="mas-test-line-")
    os.chmod(place, 0o755)
    try:
        p = subprocess.Popen([SANDBOXD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             env=dict(os.environ, TMPDIR=place))
        p.stdin.write((json.dumps(shell(1, "echo on")) + "\n").encode())
        p.stdin.flush()
        equal(json.loads(p.stdout.readline())["result"]["stdout"], "on\n")
        made = os.listdir(place)
        equal(len(made), 1, made)
        equal(os.stat(os.path.join(place, made[0])).st_mode & 0o077 & ~0o011, 0, "others may read it")
        children = below(p.pid)
        check(children, "no children at all")
        p.stdin.close()
        equal(p.wait(60), 0)
        equal(os.listdir(place), [])
        wait_for(lambda: not any(map(stat_fields, children)), "children gone")
    finally:
        shutil.rmtree(place)


@test("--state-dir is used and kept")
def test_state_dir_is_used_and_kept():
    place = tempfile.mkdtemp(prefix="mas-test-line-")
    try:
        lines([calc(1)], "--state-dir", os.path.join(place, "state"))
        check(os.path.isdir(os.path.join(place, "state")), "no state directory")
    finally:
        shutil.rmtree(place)


@test("input from a file, output to a file")
def test_input_from_a_file_output_to_a_file():
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/in", "w") as f:
            f.write((json.dumps(calc(1)) + "\n") * 20)
        with open(place + "/in") as i, open(place + "/out", "w") as o:
            equal(subprocess.run([SANDBOXD], stdin=i, stdout=o, stderr=subprocess.DEVNULL, timeout=60).returncode, 0)
        with open(place + "/out") as f:
            equal(len(f.readlines()), 20)


@test("a client that goes away ends the daemon")
def test_a_client_that_goes_away_ends_the_daemon():
    p = subprocess.Popen([SANDBOXD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write((json.dumps(shell(1, "echo 1")) + "\n").encode())
    p.stdin.flush()
    p.stdout.readline()
    p.stdout.close()
    p.stdin.write((json.dumps(shell(2, "echo 2")) + "\n").encode())
    p.stdin.close()
    p.wait(60)


@test("a client that does not read is held back, not lost")
def test_a_client_that_does_not_read_is_held_back():
    p = subprocess.Popen([SANDBOXD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write("".join(json.dumps(shell(i, "head -c 300000 /dev/zero | tr '\\0' x")) + "\n" for i in range(8)).encode())
    p.stdin.close()
    time.sleep(1)
    out = [json.loads(x) for x in p.stdout]
    equal([(o["id"], len(o["result"]["stdout"])) for o in out], [(f"s{i}", 300000) for i in range(8)])
    equal(p.wait(60), 0)


@test("SIGTERM ends a waiting daemon with 0")
def test_sigterm_ends_a_waiting_daemon_with_0():
    p = subprocess.Popen([SANDBOXD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write((json.dumps(calc(1)) + "\n").encode())
    p.stdin.flush()
    p.stdout.readline()
    p.terminate()
    equal(p.wait(60), 0)


main()
