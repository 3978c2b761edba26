"""`python -m atoll`, and the command `atoll`."""

import gc
import io
import sys


def start() -> None:
    """Runs one verb and ends the process with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no umlauts shows them spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        from atoll import cli  # here, so that a Ctrl-C in the first tenth of a second is no traceback

        status = cli.main()
    except KeyboardInterrupt:
        status = 130
    gc.freeze()  # else the interpreter looks through every imported module once more: a quarter of a second
    sys.exit(status)


if __name__ == "__main__":
    start()
