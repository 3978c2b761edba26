"""`python -m atoll`."""

import sys

from atoll import cli

if __name__ == "__main__":
    sys.exit(cli.main())
