#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""References made of the programs' own tables: reference.py DUMP-TABLES FORM FILE

FORM is config (mas-sandbox.yaml(5)), policy (mas-policy(5)), example (mas-sandboxd.example.yaml), limits (the first part of
architecture/limits.md), or tree: FILE is the directory docs then, and the two that are kept in the tree are written again."""
import json
import os
import subprocess
import sys
import textwrap

# For keys of the example that have no default, or need not be set.
EXAMPLES = {
    "auth_token": "change-me", "auth_token_file": "/etc/mas-sandbox/token", "tls_cert": "/etc/mas-sandbox/cert.pem",
    "tls_key": "/etc/mas-sandbox/key.pem", "allowed_origins": "[https://tools.example]",
    "allowed_hosts_header": "[sandbox.example]", "runtime_config": "/etc/mas-sandbox/runtime.json",
    "policy_file": "/etc/mas-sandbox/policy.yaml", "state_dir": "/var/lib/mas-sandbox",
    "libexec_dir": "/usr/libexec/mas-sandbox", "mounts_allow": "[/srv/projects]", "env": "{LANG: C.UTF-8}",
    "webhook_url": "https://example.com/approvals", "allowed_hosts": '[example.com, "*.example.org"]',
    "disallowed_hosts": "[internal.example.org]", "gateway_allow_private": "[10.1.2.3]", "skill_root": "/srv/agents",
    "secrets": '{openai: "file:/etc/mas-sandbox/openai.key api.openai.com Authorization: Bearer {}"}', "secret_hosts": "[api.example.com]",
}

CONFIG_HEAD = r'''.\" SPDX-License-Identifier: Apache-2.0
.TH MAS\-SANDBOX.YAML 5 "" "mas\-sandbox" "File formats"
.SH NAME
mas\-sandbox.yaml \- configuration of mas\-sandboxd
.SH DESCRIPTION
.BR mas\-sandboxd (8)
reads this file where
.B \-\-config
or the variable
.B SANDBOX_CONFIG
names it.
Every key can be set, in rising order, in the file
.RB ( "idle_ttl: 5m" ),
in the environment
.RB ( SANDBOX_IDLE_TTL=5m )
and by a flag
.RB ( "\-\-idle\-ttl 5m" ).
A list is comma\-separated in variables and flags, and a flag may be repeated.
A list of a higher source replaces that of a lower one, while
.B env
and
.B secrets
are merged by name.
In the file, nested maps join their names:
.B "mounts: {allow: [/srv]}"
is
.BR mounts_allow .
Aliases, anchors, tags, duplicate and unknown keys are errors, and so is a setting that this build would have to ignore.
.PP
A duration is written as in
.BR 250ms ,
.B 15m
or
.BR 1h30m ;
a size as in
.BR 65536 ,
.B 64Ki
or
.BR 1Gi ;
cores as in
.BR 2 ,
.B 0.5
or
.BR 500m .
Relative paths start at the working directory of the start.
'''
CONFIG_TAIL = r'''.SH SEE ALSO
.BR mas\-sandboxd (8),
.BR mas\-policy (5),
.BR sbx (1)
'''

POLICY_HEAD = r'''.\" SPDX-License-Identifier: Apache-2.0
.TH MAS\-POLICY 5 "" "mas\-sandbox" "File formats"
.SH NAME
mas\-policy \- what agents may do: the file that policy_file names
.SH DESCRIPTION
A policy says which calls run, which a person is asked about, and which never run.
It is one YAML file of at most {file} KiB, which
.BR mas\-sandboxd (8)
decides by before anything runs.
The strictest rule that matches wins: deny before ask before allow, in any order of the file; then
.BR default .
A file is refused as a whole, with line and column, for any key, pattern or value that is not understood, because a
misspelt condition would make a rule wider than it was meant.
.PP
.nf
version: 1
default: ask
rules:
  \- {{id: look, verdict: allow, command: ["ls *", "git status"]}}
  \- {{id: publish, verdict: ask, risk: high, command: "git push *"}}
tests:
  \- {{command: "git status; git push", expect: ask, rule: publish}}
.fi
.PP
.B sbx policy check FILE
says where a file is wrong,
.B sbx policy test FILE
runs its tests, and
.B sbx policy explain FILE \-line LINE
shows what decides.
'''
POLICY_TAIL = r'''.SH SEE ALSO
.BR mas\-sandbox.yaml (5),
.BR mas\-sandboxd (8),
.BR sbx (1);
docs/policy.md says how commands are read and what is never allowed
'''


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def sentence(text):
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def amount(key, n):
    """A number of the table in the notation that the file has for it."""
    if key["type"] == "cores":
        return f"{n / 1000:g}"
    steps = {"duration": [("h", 3600000), ("m", 60000), ("s", 1000)],
             "size": [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)]}.get(key["type"], [])
    for unit, size in steps:
        if n and n % size == 0:
            return f"{n // size}{unit}"
    return f"{n}ms" if n and key["type"] == "duration" else str(n)


def is_limit(key):
    return key.get("type") in ("number", "cores", "duration", "size")


def range_of(key):
    return f"{amount(key, key['min'])} to {amount(key, key['max'])}"


def type_of(key):
    if "choices" in key:
        return "one of " + ", ".join(key["choices"].split("|"))
    if is_limit(key):
        return f"{key['type']}, {range_of(key)}"
    return {"bool": "true or false", "map": "map of names and values"}.get(key["type"], key["type"])


def entry(name, *lines):
    return f".TP\n.B {roff(name)}\n" + "\n.br\n".join(roff(line) for line in lines) + "\n"


def config(tables):
    page, in_keys = CONFIG_HEAD, False
    for key in tables["config"]:
        if "group" in key:
            page += f"{'' if in_keys else '.SH KEYS' + chr(10)}.SS {key['group']}\n"
            in_keys = True
            continue
        name, default = key["name"], f"; default: {key['default']}" if "default" in key else ""
        also = f" Also called {key['alias']}." if "alias" in key else ""
        secret = " It is never printed." if key["secret"] else ""
        page += entry(name, sentence(key["help"]) + also + secret, sentence(f"Type: {type_of(key)}{default}"),
                      f"Flag: --{name.replace('_', '-')}. Variable: SANDBOX_{name.upper()}.")
    return page + CONFIG_TAIL


def policy(tables):
    p = tables["policy"]
    file_max, rules_max, tests_max, list_max, pattern_max = p["maxima"]
    words = lambda name: ", ".join(p[name])
    notations = [
        ("VERDICT", f"One of {words('verdicts')}."),
        ("RISK", f"One of {words('risks')}."),
        ("ROLES", f"One or a list of {words('roles')}."),
        ("CAPABILITIES", "One or a list of network, file, unsafe."),
        ("PATTERNS, COMMANDS, PATHS, HOSTS, IMAGES",
         f"One text or a list of at most {list_max}, each of at most {pattern_max} bytes; one of them has to match. "
         "In all but hosts, * stands for any text and ? for any character."),
        ("PATHS", "Begin with / (absolute), ~/ (the home directory), ./ (the workspace) or **/ (anywhere). "
                  "* stays in a directory, ** does not, and /x/** has /x in it."),
        ("MAP of limits", f"Names are {words('limits')}."),
    ]
    page = POLICY_HEAD.format(file=file_max // 1024)
    for title, table, text in (
            ("KEYS OF THE FILE", "file", f"There are at most {rules_max} rules and {tests_max} tests."),
            ("KEYS OF A RULE", "rule", "All conditions that a rule has must hold; of a list, one item."),
            ("KEYS OF REQUIRE", "require", "Of all rules that match a call, the strictest of each counts."),
            ("KEYS OF A TEST", "test", "A test is a call, and what the policy must say to it.")):
        page += f".SH {title}\n{roff(text)}\n"
        page += "".join(f".TP\n.BR {roff(k['name'])} : \" {roff(k['value'].replace(chr(34), chr(39)))}\"\n{roff(k['help'])}\n"
                        for k in p[table])
    page += ".SH NOTATION\n" + "".join(entry(*n) for n in notations)
    return page + POLICY_TAIL


def example(tables):
    text = ("# SPDX-License-Identifier: Apache-2.0\n"
            "# Configuration of mas-sandboxd: every key, with its default or an example, commented out.\n"
            "# Check a file with:  mas-sandboxd --config FILE --check-config\n"
            "# See mas-sandbox.yaml(5). A variable (SANDBOX_IDLE_TTL=5m) wins over this file, a flag over both.\n")
    for key in tables["config"]:
        if "group" in key:
            text += f"\n# --- {key['group']}\n"
            continue
        choices = f" [{key['choices']}]" if "choices" in key else ""
        comment = key["help"][:1].upper() + key["help"][1:] + choices
        text += textwrap.fill(comment, 120, initial_indent="# ", subsequent_indent="# ", break_long_words=False,
                              break_on_hyphens=False) + "\n"
        value = EXAMPLES.get(key["name"], key.get("default", "[]" if "list" in key["type"] else '""'))
        text += "listen: [127.0.0.1:8080]\n" if key["name"] == "listen" else f"#{key['name']}: {value}\n"
    return text


def limits(tables):
    rows, group = [], None
    for key in tables["config"]:
        group = key.get("group", group)
        if is_limit(key):
            if group:
                rows += ["", f"### {group}", "", "| key | default | range | what |", "|---|---|---|---|"]
                group = None
            help_text = key["help"].replace("|", "\\|")
            rows.append(f"| `{key['name']}` | {key['default']} | {range_of(key)} | {help_text} |")
    return "\n".join(rows).lstrip("\n") + "\n"


FORMS = {"config": config, "policy": policy, "example": example, "limits": limits}
BEGIN, END = "<!-- made by docs/reference.py -->\n", "<!-- end -->\n"


def tables(dump):
    return json.loads(subprocess.run([dump], stdout=subprocess.PIPE, check=True, timeout=60).stdout)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    dump, form, path = sys.argv[1:]
    if form != "tree":
        write(path, FORMS[form](tables(dump)))
        return
    page_path = os.path.join(path, "architecture/limits.md")
    with open(page_path, encoding="utf-8") as f:
        page = f.read()
    made = BEGIN + "\n" + limits(tables(dump)) + "\n"
    write(page_path, page[:page.index(BEGIN)] + made + page[page.index(END):])
    write(os.path.join(path, "mas-sandboxd.example.yaml"), example(tables(dump)))


if __name__ == "__main__":
    main()
