"""Entry point of `atoll` and `python -m atoll`."""

import gc
import io
import os
import sys


def start() -> None:
    """Runs one command and exits with its status."""
    # Small matrices gain nothing from threads of OpenBLAS, and its idle threads spin: on two busy cores the first look
    # at a table of 300 rows took a minute instead of a second. This must be set before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # terminals without UTF-8 show escapes
            stream.reconfigure(errors="backslashreplace")
    try:
        from atoll import cli  # imported here: Ctrl-C during the import must not print a traceback

        status = cli.main()
    except KeyboardInterrupt:
        status = 130
    gc.freeze()  # saves the last garbage collection, a quarter of a second
    sys.exit(status)


if __name__ == "__main__":
    start()
