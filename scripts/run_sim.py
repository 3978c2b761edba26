#!/usr/bin/env python3
"""Runs the survival example: scripts/run_sim.py [OPTIONS of `atoll run`]."""

import sys
from pathlib import Path

from atoll import cli

if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[1] / "examples" / "survival"
    sys.exit(cli.main(["run", str(folder), *sys.argv[1:]]))
