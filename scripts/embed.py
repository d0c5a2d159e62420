#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C file that holds a text: embed.py INPUT OUTPUT SYMBOL HEADER"""
import sys

source, target, symbol, header = sys.argv[1:5]
data = open(source, "rb").read()
with open(target, "w") as out:
    out.write(f'#include "{header}"\n\nconst char {symbol}[] = {{')
    for i, byte in enumerate(data):
        out.write(("\n    " if i % 16 == 0 else " ") + f"{byte},")
    out.write(f"\n    0}};\nconst size_t {symbol}_len = sizeof({symbol}) - 1;\n")
