"""Checks that every test that docs/Cases.md names exists: cases.py SOURCE."""

import os
import re
import sys

source = sys.argv[1]
macros = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.M)
names, suites, instances = set(), set(), set()
for folder, _, files in os.walk(os.path.join(source, "test", "unit")):
    for file in files:
        if file.endswith(".cpp"):
            with open(os.path.join(folder, file)) as text:
                content = text.read()
            names |= {f"{suite}.{case}" for suite, case in macros.findall(content)}
            # A suite may be named as a whole.
            suites |= set(re.findall(r"INSTANTIATE_TEST_SUITE_P\(\w+, (\w+)", content))
            instances |= set(re.findall(r"INSTANTIATE_TEST_SUITE_P\((\w+), \w+", content))

missing, count = [], 0
with open(os.path.join(source, "docs", "Cases.md")) as page:
    rows = [line for line in page if line.startswith("|")]
for row in rows:
    for name in re.findall(r"`([^`]+)`", row.split("|")[3]):
        count += 1
        if name.startswith("lit:"):
            found = os.path.exists(os.path.join(source, "test", name[len("lit:") :]))
        else:
            parts = name.split("/")
            plain = parts[1] if parts[0] in instances else parts[0]
            found = plain in names or plain in suites
        if not found:
            missing.append(name)
print(f"{count} tests of {len(rows)} rows")
for name in missing:
    print(f"docs/Cases.md: no test of the name {name}")
sys.exit(1 if missing or not count else 0)
