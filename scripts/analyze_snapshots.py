#!/usr/bin/env python3
"""Summarizes the files of `--save-run`: scripts/analyze_snapshots.py PATH... [--top-playbook-targets N]."""

import argparse
import json
import sys
from pathlib import Path

from atoll import errors
from atoll.survival import analysis


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--top-playbook-targets", type=int, default=5)
    options = parser.parse_args()
    try:
        result = analysis.analyze(analysis.read_turns(options.paths), options.top_playbook_targets)
    except errors.SetupError as error:
        print(f"analyze_snapshots: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
