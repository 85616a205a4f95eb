"""Compiles a configuration and checks what it takes: less than 30 s of processor time, 2 GiB of
memory and an artifact of 10 MB.

usage: compile_cost.py CONFIG OUTPUT
"""

import os
import sys

SECONDS, KIBIBYTES, BYTES = 30, 2 << 20, 10 * 10**6

child = os.spawnlp(
    os.P_NOWAIT, "gemma-compile", "gemma-compile", sys.argv[1], "-o", sys.argv[2], "--quiet"
)
_, status, usage = os.wait4(child, 0)
code = os.waitstatus_to_exitcode(status)
seconds = usage.ru_utime + usage.ru_stime
size = os.path.getsize(sys.argv[2]) if code == 0 else 0
print(f"exit code {code}, {seconds:.1f} s, {usage.ru_maxrss >> 10} MiB, artifact {size} bytes")
slack = 8 if "ASAN_OPTIONS" in os.environ else 1
within = seconds < SECONDS * slack and usage.ru_maxrss < KIBIBYTES * slack and 0 < size < BYTES
sys.exit(0 if code == 0 and within else 1)
