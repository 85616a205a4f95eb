#!/usr/bin/env python3
"""Assembles the kernels of the tests here for every target.

Usage: assemble.py FOLDER. Exit status 1 if a kernel does not assemble, spills or has local memory;
without a ptxas there is only the note that says so.
"""
import pathlib
import subprocess
import sys


def main(folder):
    for source in sorted(pathlib.Path(folder).glob("*.mlir")):
        if source.name.endswith("-invalid.mlir"):
            continue
        for chip in ("sm_80", "sm_90", "sm_100", "sm_120"):
            run = subprocess.run(
                ["gemma-opt", str(source), f"--gemma-emit-ptx=chip={chip} check=true", "-o", "/dev/null"],
                capture_output=True, text=True, check=False)
            print(run.stdout, end="")
            if run.returncode != 0:
                print(run.stderr, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
