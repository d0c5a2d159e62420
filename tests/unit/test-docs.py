#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Documents against the programs: man pages know every option, links and named files exist."""
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../docs"))
import reference

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PAGES = {"mas-sandboxd": 8, "mas-engine": 8, "mas-intercept": 8, "mas-kube": 8, "mas-link": 8, "mas-link-tls": 8, "mas-oci": 8, "mas-warden": 8, "sbx": 1, "sandbox_agent": 1, "mas-tool-net": 1, "mas-toolrunner": 1,
         "mas-toolrunner-client": 1}
OPTION = re.compile(r"(?<![\w-])--?([a-z][a-z0-9-]*)")


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def man(name, section):
    """A page without its markup; dashes and underscores are one."""
    return unmarked(text(f"docs/man/{name}.{section}"))


def unmarked(page):
    return re.sub(r"\\f.|\\\(..|\\&", " ", page.replace("\\-", "-")).replace("_", "-")


def help_of(name, *args):
    p = subprocess.run([os.path.join(BUILD, name), *args], stdin=subprocess.DEVNULL, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    equal((p.returncode, p.stderr), (0, ""), f"{name} {args}")
    check(len(p.stdout) > 20, "there is help")
    return p.stdout


def seconds(value):
    """Numbers, durations and sizes as one number; anything else as it is."""
    size = re.fullmatch(r"(\d+)(?:([KMGT])i)?", value)
    if size:
        return float(int(size[1]) << 10 * (" KMGT".index(size[2] or " ")))
    parts = re.findall(r"([\d.]+)(h|ms|m|s)", value)
    if not parts or "".join(a + b for a, b in parts) != value:
        return value
    return sum(float(n) * {"h": 3600, "m": 60, "s": 1, "ms": 0.001}[unit] for n, unit in parts)


def documents():
    found = glob.glob("*.md", root_dir=ROOT) + glob.glob("docs/**/*", root_dir=ROOT, recursive=True)
    return [f for f in sorted(found)
            if os.path.isfile(os.path.join(ROOT, f)) and "__pycache__" not in f] + ["LICENSE"]


def missing_options(help_text, page):
    return sorted({o for o in OPTION.findall(help_text)
                   if not re.search(rf"(?<![\w-])-*{re.escape(o)}(?![\w-])", page)})


for program, section in PAGES.items():
    @test(f"{program}({section}) has every option of --help")
    def test_has_every_option_of_help(program=program, section=section):
        page = man(program, section)
        if program == "mas-sandboxd":  # its keys have a page of their own
            page += unmarked(text(os.path.join(BUILD, "docs/mas-sandbox.yaml.5")))
        equal(missing_options(help_of(program, "--help"), page), [])


def sbx_commands():
    """Every verb, and the sub-commands it has."""
    row = re.compile(r"^  ([a-z][a-z-]*) +[A-Z]", re.M)
    found = {verb: row.findall(help_of("sbx", "help", verb)) for verb in row.findall(help_of("sbx", "--help"))}
    check(len(found) >= 14 and "build-from-tar" in found["image"] and not found["run"], found)
    return found


@test("documents name only commands of sbx that there are")
def test_documents_name_only_commands_of_sbx_that_there():
    known, seen = sbx_commands(), 0
    for doc in documents() + ["debian/config.yaml"]:
        for verb, sub in re.findall(r"(?:`|^ +(?:\$ )?|\$\()sbx ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", text(doc), re.M):
            check(verb in known, f"{doc}: sbx {verb}")
            check(not sub or not known[verb] or sub in known[verb], f"{doc}: sbx {verb} {sub}")
            seen += 1
    check(seen > 40, seen)


@test("sbx(1) has every verb and every verb's flags")
def test_sbx_1_has_every_verb_and_every_verb_flags():
    page = man("sbx", 1)
    known = sbx_commands()
    for command in [(verb,) for verb in known] + [(verb, sub) for verb in known for sub in known[verb]]:
        name = " ".join(command)
        check(re.search(rf"(?<![\w-]){name}(?![\w-])", page), f"{name} is not in sbx(1)")
        equal(missing_options(help_of("sbx", "help", *command), page), [], name)


@test("links lead to files")
def test_links_lead_to_files():
    for doc in documents():
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text(doc) if doc.endswith(".md") else ""):
            if "://" not in target:
                path = os.path.join(ROOT, os.path.dirname(doc), target)
                check(os.path.exists(path), f"{doc}: {target}")


def installed():
    """Every file and folder that is installed, by where it is in the tree."""
    with open(os.path.join(BUILD, "meson-info/intro-installed.json"), encoding="utf-8") as f:
        return {os.path.relpath(os.path.realpath(source), ROOT): target for source, target in json.load(f).items()}


@test("a document that is installed links to what is installed at the same place beside it")
def test_a_document_that_is_installed_links():
    places = installed()

    def place(path):
        above = [path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))]
        return next((os.path.normpath(os.path.join(places[f], os.path.relpath(path, f))) for f in above if f in places), None)

    pages = [d for d in documents() if d.endswith(".md") and place(d)]
    check(len(pages) > 12, pages)
    for doc in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text(doc)):
            path = os.path.normpath(os.path.join(os.path.dirname(doc), target))
            if "://" in target or path == "docs/man":  # manual pages have places of their own
                continue
            equal(place(path), os.path.normpath(os.path.join(os.path.dirname(place(doc)), target)), f"{doc}: {target}")


@test("source files that documents name exist")
def test_source_files_that_documents_name_exist():
    pages = glob.glob("docs/architecture/*.md", root_dir=ROOT)
    check(len(pages) > 8, "control: there are pages")
    for doc in ["ARCHITECTURE.md", "HACKING.md", "SECURITY.md"] + pages:
        for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:c|h|py|sh|build|in))\b", text(doc)):
            places = [os.path.join(ROOT, prefix, name) for prefix in ("", "src", "src/daemon")]
            check(any(map(os.path.exists, places)), f"{doc}: {name}")


@test("the layout in HACKING has every folder, and no other")
def test_the_layout_in_hacking_has_every_folder():
    layout = text("HACKING.md").split("## Layout\n")[1].split("\n## ")[0]
    named = set(re.findall(r"(?:^    |  )((?:src|tests)/[\w-]+)", layout, re.M))
    there = {f"{top}/{e.name}" for top in ("src", "tests") for e in os.scandir(os.path.join(ROOT, top)) if e.is_dir()}
    equal(named, {f for f in there if not f.endswith("__pycache__")})


@test("a page of the architecture names a file with its folder, and the overview stays one")
def test_a_page_of_the_architecture_names_a_file():
    pages = glob.glob("docs/architecture/*.md", root_dir=ROOT)
    equal([(p, name) for p in pages for name in re.findall(r"`([\w-]+\.[ch])`", text(p))], [])
    overview = text("ARCHITECTURE.md")
    check(len(overview.splitlines()) <= 200, "at most 200 lines")
    equal([p for p in pages if f"]({p})" not in overview], [], "the overview leads to each page")


def printed_config():
    p = subprocess.run([SANDBOXD, "--print-config"], stdout=subprocess.PIPE, timeout=60, text=True,
                       env={"PATH": os.environ["PATH"], "HOME": "/tmp"})
    return dict(re.findall(r"^(\w+): *(.*)$", p.stdout, re.M))


@test("keys in the table of limits exist and have these defaults; all that are numbers are in it")
def test_keys_in_the_table_of_limits_exist_and_have_these():
    config, page = printed_config(), text("docs/architecture/limits.md")
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \| \S+ to \S+ \| [^|]+ \|$", page, re.M))
    check(len(rows) > 100, rows)
    for key, value in rows.items():
        equal(seconds(config[key].strip('"')), seconds(value), key)
    numbers = {k for k, v in config.items() if re.fullmatch(r'"?[\d.]+([KMGT]i|ms|[hms])?"?', v)}
    equal(numbers - set(rows), set())
    equal([k for k in re.findall(r"`(\w+)`", page) if k not in config and k != "max_output_bytes"], [])


def made(form):
    return reference.FORMS[form](reference.tables(os.path.join(BUILD, "docs/dump-tables")))


@test("what is made of the tables is in step with them: ninja -C build reference")
def test_what_is_made_of_the_tables_is_in_step_with_them():
    equal(text("docs/mas-sandboxd.example.yaml").split("\n"), made("example").split("\n"))
    page = text("docs/architecture/limits.md")
    equal(page.split(reference.BEGIN)[1].split(reference.END)[0].strip().split("\n"), made("limits").strip().split("\n"))
    for name, form in (("mas-sandbox.yaml.5", "config"), ("mas-policy.5", "policy")):
        equal(text(os.path.join(BUILD, "docs", name)).split("\n"), made(form).split("\n"), name)


def entries(page):
    """{the word in bold: what stands below it}"""
    return dict(re.findall(r"^\.TP\n\.BR? ([^\s:]+).*\n((?:[^.].*\n|\.br\n)+)", page, re.M))


@test("mas-sandbox.yaml(5) has every key with its default, its flag and its variable")
def test_mas_sandbox_yaml_5_has_every_key():
    page, config = entries(text(os.path.join(BUILD, "docs/mas-sandbox.yaml.5")).replace("\\-", "-")), printed_config()
    equal(set(config) - set(page), set())
    flags = re.findall(r"^  --([\w-]+)(?: \S+)?\n((?:        .*\n)+)", help_of("mas-sandboxd", "--help"), re.M)
    equal(len(flags), len(page))
    for flag, lines in flags:
        help_text = " ".join(lines.split())
        check(all(len(line) <= 96 or " " not in line.strip() for line in lines.splitlines()), lines)
        entry = page[flag.replace("-", "_")]
        check(f"Flag: --{flag}. Variable: SANDBOX_{flag.replace('-', '_').upper()}." in entry, entry)
        default = re.search(r" \(default (.*)\)$", help_text)
        check(not default or f"; default: {default[1]}." in entry, entry)


@test("mas-policy(5) has every key that policies of this tree and docs/policy.md use, and its conditions are in the latter")
def test_mas_policy_5_has_every_key_that_policies():
    page = text(os.path.join(BUILD, "docs/mas-policy.5"))
    documented = set(entries(page))
    table = text("docs/policy.md").split("## Conditions")[1].split("\n\nChecks")[0]
    keys = {k for row in re.findall(r"^\| (`[^|]+) \|", table, re.M) for k in re.findall(r"`(\w+)`", row)}
    rule = {k["name"] for k in reference.tables(os.path.join(BUILD, "docs/dump-tables"))["policy"]["rule"]}
    equal(rule - keys, {"id", "verdict", "risk", "reason", "require"}, "what docs/policy.md's table of conditions lacks")
    for path in glob.glob("docs/policies/*.yaml", root_dir=ROOT):
        keys |= set(re.findall(r"^(?:  - |    )?(\w+):", text(path), re.M)) - {"tests"} | {"tests"}
    check(len(keys) > 20, keys)
    equal(keys - documented, set())


@test("the usage guide says the same in both languages: sections, tables and commands")
def test_the_usage_guide_says_the_same_in_both_languages():
    def shape(doc):
        body = text(doc)
        blocks = re.findall(r"^```\n(.*?)^```$", body, re.M | re.S)
        prose = re.sub(r"^```\n.*?^```$", "", body, flags=re.M | re.S)
        rows = [re.findall(r"`[^`]+`", r) for r in re.findall(r"^\|.*\|$", prose, re.M)]
        return re.findall(r"^(#+ [\d.]*)", prose, re.M), rows, blocks
    english, chinese = shape("docs/usage.md"), shape("docs/usage.zh-CN.md")
    check(len(english[2]) > 8, "control: there are commands")
    for e, c in zip(english, chinese):
        equal(c, e)


@test("every installed program has a man page, which is installed too")
def test_every_installed_program_has_a_man_page():
    with open(os.path.join(BUILD, "meson-info/intro-install_plan.json")) as f:
        plan = json.load(f)
    installed = [p["destination"] for kind in plan.values() for p in kind.values()]
    pages = {os.path.basename(d).rsplit(".", 1)[0] for d in installed if d.startswith("{mandir}")}
    programs = {os.path.basename(d) for d in installed if re.fullmatch(r"\{(bindir|sbindir|libexecdir)\}/[\w/-]+", d)}
    check({"sbx", "mas-sandboxd", "mas-warden", "mas-net"} <= programs, f"control: {programs}")
    equal(programs - pages, set())


@test("no line of a man page is lost for beginning with a dot")
def test_no_line_of_a_man_page_is_lost_for_beginning():
    macros = set("B BI BR EE EX I IP IR PP RB RI SH SS TH TP TQ br fi nf".split())
    for page in glob.glob(os.path.join(ROOT, "docs/man/*")) + glob.glob(os.path.join(BUILD, "docs/*.5")):
        first, rest = text(page).split("\n", 1)
        equal(first, '.\\" SPDX-License-Identifier: Apache-2.0', page)
        equal(set(re.findall(r"^[.'](\S*)", rest, re.M)) - macros, set(), page)


@test("documents call the three APIs of others by their names")
def test_documents_call_the_three_apis_of_others():
    # The MAS API, the sbx API and the actions API; letters are for the code.
    pages = [d for d in documents() if d.endswith(".md") and d != "NEWS.md"]
    equal([d for d in pages if re.search(r"\bcontract [ABC]\b", text(d), re.I)], [])


@test("no document names a place that readers do not have")
def test_no_document_names_a_place_that_readers():
    hosts = r"docker\.io|ghcr\.io|quay\.io|gcr\.io|registry\.[\w-]+\.\w|pypi\.org|crates\.io|npmjs"
    for doc in documents():
        for pattern in (r"/work\b(?!space)", hosts):
            found = re.search(pattern, text(doc))
            check(not found, f"{doc}: {found and found.group()}")


main()
