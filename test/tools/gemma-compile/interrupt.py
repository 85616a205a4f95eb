"""Ctrl-C while gemma-compile works: exit code 130, no output, nothing left in its folder nor among
temporary files.

usage: interrupt.py CHECKPOINT SCRATCH
"""

import os
import shutil
import signal
import subprocess
import sys


def interrupted_at(checkpoint, scratch, step):
    """Sends SIGINT once progress says `step`; returns what is wrong."""
    shutil.rmtree(scratch, ignore_errors=True)
    folder, temporary = os.path.join(scratch, "out"), os.path.join(scratch, "tmp")
    os.makedirs(folder)
    os.makedirs(temporary)
    child = subprocess.Popen(
        ["gemma-compile", checkpoint, "-o", os.path.join(folder, "out.gemma")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": temporary},
    )
    seen = False
    for line in child.stderr:
        if step in line:
            seen = True
            child.send_signal(signal.SIGINT)
            break
    child.stderr.read()
    code = child.wait()
    if not seen:
        return f"expected progress to say {step}"
    if code != 130:
        return f"expected exit code 130, got {code}"
    left = os.listdir(folder) + os.listdir(temporary)
    return f"expected no files, got {left}" if left else None


def main(checkpoint, scratch):
    bad = 0
    for step in ("import", "lower", "code for avx512", "code for baseline"):
        problem = interrupted_at(checkpoint, scratch, step)
        print(f"{step}: {problem or 'ok'}")
        bad += problem is not None
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
