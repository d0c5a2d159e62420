#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network by name against real servers: what is allowed arrives, of what is denied not one packet leaves."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import Net, allowed, denied, main, status, use  # noqa: E402
from masd import check, equal  # noqa: E402

ALLOW = [{"host": "allowed.test", "ports": [80, 443, 8000]}]
use(Net(w.World(), {"allow": ALLOW}))


@allowed("http", "an allowed name answers")
def test_an_allowed_name_answers(net):
    out = net.get("http://allowed.test/")[0]
    check(out.startswith("HTTP/1.1 200") and out.endswith("hello\n"), out)


@denied("http", "a denied name is refused")
def test_a_denied_name_is_refused(net):
    equal(status(net.get("http://denied.test/")[0]), 403)


main()
