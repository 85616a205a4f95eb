"""usage: exits-with.py CODE [--interrupt] COMMAND...

Runs the command and fails unless it exits with CODE. With --interrupt it gets SIGINT a second after
its start.
"""
import signal
import subprocess
import sys
import time


def main():
    code, command = int(sys.argv[1]), sys.argv[2:]
    interrupt = command[0] == "--interrupt"
    process = subprocess.Popen(command[interrupt:])
    if interrupt:
        time.sleep(1)
        process.send_signal(signal.SIGINT)
    if process.wait(timeout=120) != code:
        sys.exit(f"expected exit code {code}, got {process.returncode}")


main()
