"""Goals of the governed system: stores, logs, statistics and the secret scanner.

Runs `governed_stores`, `governed_logs` and `governed_statistics`, which save their own results, and measures the
secret scanner.
"""

import argparse
import subprocess
import time

from atoll import secret_scanner
from bench import outcome
from tests import test_secret_scanner

PARTS = ("governed_stores", "governed_logs", "governed_statistics")
LINES, GOALS = 200_000, 20_000
COLUMNS = ("of", "goal", "ours")


def guard(num_lines: int) -> list[list[object]]:
    """Returns the matches in planted and harmless lines, and the lines per CPU second."""
    result = sum(bool(secret_scanner.find_secrets(text, {})) for text in test_secret_scanner.PLANTED.values())
    alarms = sum(bool(secret_scanner.find_secrets(text, {})) for text in test_secret_scanner.HARMLESS)
    text = "\n".join(
        f"result_{n} = compute(alpha={n}, path='/usr/share/data/{n}.csv')  # step {n}" for n in range(num_lines)
    )
    since = time.process_time()
    secret_scanner.find_secrets(text, {})
    rate = num_lines / (time.process_time() - since)
    return [
        ["planted keys found", f"{len(test_secret_scanner.PLANTED)}", f"{result}"],
        ["harmless lines reported as keys", "0", f"{alarms}"],
        ["lines per CPU second", f"{GOALS:,}", f"{rate:,.0f}"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; saves nothing")
    args = parser.parse_args()
    more = ["--quick"] if args.quick else []
    for part in PARTS:
        subprocess.run(["scripts/bench", part, *more], check=True)  # installs the extras of each
    tables: outcome.Tables = {"Guard against secrets": (COLUMNS, guard(LINES // 10 if args.quick else LINES))}
    notes = [f"The other tables are in {', '.join(f'{part}.md' for part in PARTS)}."]
    (outcome.show if args.quick else outcome.keep)("governed", tables, notes)


if __name__ == "__main__":
    main()
