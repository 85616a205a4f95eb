"""Runs a command and expects an exit code: exit_code.py CODE COMMAND..."""

import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
if code != int(sys.argv[1]):
    sys.exit(f"expected exit code {sys.argv[1]}, got {code}")
