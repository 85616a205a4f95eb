"""Runs a command that can write files of so many bytes only, as after `ulimit -f`:
file_limit.py BYTES COMMAND..."""

import os
import resource
import signal
import sys

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, a shell does not
os.execvp(sys.argv[2], sys.argv[2:])
