"""Results of the kernel mutants that `scripts/mutants` left in `mutants/`.

A mutant is the kernel with one operator, number, text, argument or value changed. A failing or hanging test kills it. A
surviving mutant is a line that no test needs, or an equivalent change.
"""

import argparse
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from mutmut import stats
from mutmut.mutation import data, diff_apply
from mutmut.utils import file_utils

from bench import outcome

SAME = Path(__file__).parent / "mutants_same.toml"
KILLED, HUNG, UNSEEN, UNTRIED = "killed", "timeout", "no tests", "not checked"
DEAD = {KILLED, HUNG}


class Mutant(NamedTuple):
    """One change and its result."""

    path: Path
    name: str
    status: str

    @property
    def module(self) -> str:
        return ".".join(self.path.with_suffix("").parts[1:])

    def change(self) -> str:
        """Returns the change in one line: old text, then new text."""
        diff = diff_apply.get_diff_for_mutant(self.name, path=self.path).splitlines()[2:]
        taken, put = ([line[1:].strip() for line in diff if line[0] == sign] for sign in "-+")
        return f"- {' '.join(taken)} / + {' '.join(put)}"


def mutants() -> Iterator[Mutant]:
    """Yields all mutants in source order."""
    for path in sorted(file_utils.walk_mutatable_files()):
        result = data.SourceFileMutationData(path=path)
        result.load()
        for name, status in result.exit_code_by_key.items():
            yield Mutant(path, name, stats.status_by_exit_code[status])


def forget() -> None:
    """Makes the next run try surviving mutants again, after tests were added."""
    for path in file_utils.walk_mutatable_files():
        result = data.SourceFileMutationData(path=path)
        result.load()
        for name, status in result.exit_code_by_key.items():
            if stats.status_by_exit_code[status] not in DEAD:
                result.exit_code_by_key[name] = None
        result.save()


def survivors(results: list[Mutant]) -> Iterator[tuple[str, str, str]]:
    """Yields module, change and, for equivalent changes, the reason."""
    same = {(load["module"], load["change"]): load["why"] for load in tomllib.loads(SAME.read_text())["same"]}
    for mutant in results:
        if mutant.status not in {*DEAD, UNTRIED}:
            change = mutant.change()
            yield mutant.module, change, same.get((mutant.module, change), "")


def write_tables() -> None:
    """Writes the tables, or resets the surviving mutants."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--forget", action="store_true", help="test surviving mutants again in the next run")
    if parser.parse_args().forget:
        return forget()
    result = list(mutants())
    by_module = {module: Counter[str]() for module in dict.fromkeys(item.module for item in result)}
    for item in result:
        by_module[item.module][item.status] += 1
    total = sum(by_module.values(), Counter[str]())
    rows = [_row(module, counts) for module, counts in {**by_module, "all": total}.items()]
    left = list(survivors(result))
    outcome.keep(
        "mutants",
        {
            "Mutants of the kernel": (
                ("module", "mutants", "not tested", "killed", "killed by timeout", "survived", "no tests", "% killed"),
                rows,
            ),
            "Survivors": (
                ("module", "change", "why it is equivalent"),
                [(module, f"`{change}`".replace("|", r"\|"), why) for module, change, why in left],
            ),
        },
        [
            f"Tool: mutmut {metadata.version('mutmut')}. Killed: a test failed or hung.",
            f"Of the {len(left)} that survived, {sum(bool(why) for *_, why in left)} are equivalent.",
            *([f"The run was interrupted: {total[UNTRIED]} are not tested yet."] if total[UNTRIED] else []),
        ],
        tool=f"mutmut {metadata.version('mutmut')}",
    )
    return None


def _row(module: str, counts: Counter[str]) -> tuple[object, ...]:
    killed, unseen = sum(counts[status] for status in DEAD), counts[UNSEEN]
    tried = counts.total() - counts[UNTRIED]
    rate = round(100 * killed / tried, 1) if tried else 0.0
    return module, counts.total(), counts[UNTRIED], killed, counts[HUNG], tried - killed - unseen, unseen, rate


if __name__ == "__main__":
    write_tables()
