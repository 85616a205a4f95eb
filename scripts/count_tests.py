#!/usr/bin/env python3
"""Prints one line that counts the tests of a ctest run, from ctest's own JUnit file.

usage: count_tests.py RESULTS.xml CTEST_STATUS

ctest's own last lines give a percentage and leave out skipped tests, so they are counted here. Exit
status: 0 if ctest reported success and nothing failed, 1 otherwise.
"""
import sys
import xml.etree.ElementTree as ElementTree


def main():
    path, ctest_status = sys.argv[1], int(sys.argv[2])
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # ctest writes "run", "fail", "notrun" (skipped, or a program that is not there), "disabled".
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status == "disabled":
            skipped += 1
        elif status == "notrun":
            reason = case.find("skipped")
            message = reason.get("message", "") if reason is not None else ""
            if message.startswith("SKIP_"):
                skipped += 1
            else:
                failed += 1
        else:
            failed += 1
    ok = ctest_status == 0 and failed == 0
    if not ok and failed == 0:
        print(f"ctest exit status {ctest_status} without a failed test", file=sys.stderr)
    print(f"{passed} passed, {failed} failed, {skipped} skipped, {passed + failed + skipped} in all")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
