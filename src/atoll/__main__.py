"""`python -m atoll`, and the command `atoll`."""

import gc
import sys

from atoll import cli


def start() -> None:
    """Runs one verb and ends the process with its exit status."""
    status = cli.main()
    gc.freeze()  # else the interpreter looks through every imported module once more: a quarter of a second
    sys.exit(status)


if __name__ == "__main__":
    start()
