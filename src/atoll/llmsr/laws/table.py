"""Regression data from CSV files with a header, numbers, and the target in the last column."""

import csv
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll import errors
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.factor import Array
from atoll.llmsr.laws.least_squares import Rows

TRAIN_FILE, TEST_FILES = "train.csv", ("test_id.csv", "test_ood.csv")
MIN_ROWS = 8  # most laws have about as many constants

MAX_VALUE = 1e100  # maximal value; its inverse is the minimal range


class Table(NamedTuple):
    """Named columns and a target.

    Attributes:
        names: Names of the variables in a law.
        target: Name of the last column.
        x: Rows by columns.
        y: One value per row.
    """

    names: Sequence[str]
    target: str
    x: Array
    y: Array

    @property
    def rows(self) -> Rows:
        return Rows(np.ascontiguousarray(self.x.T), np.ascontiguousarray(self.y), float(self.y.var()))

    @property
    def domain(self) -> Domain:
        return Domain.from_columns(self.x.T)


def read_table(path: Path) -> Table:
    """Reads a CSV file.

    Raises:
        SetupError: The file cannot be read, has no header, or has a value that is not a finite number.
    """
    lines = _read_lines(path)
    if len(lines) < 2:
        raise errors.SetupError(f"{path} has no rows. Write a header and one row of numbers per data point.")
    header = [name.strip() for name in lines[0]]
    if all(_is_number(name) for name in header):
        raise errors.SetupError(f"{path} has no header. Name the columns in the first line, the target last.")
    if len(header) < 2:
        raise errors.SetupError(f"{path} has one column, {header[0]}. Add at least one variable before the target.")
    values = np.array([_parse_row(path, line_number, line, header) for line_number, line in enumerate(lines[1:], 2)])
    return Table(make_identifiers(header[:-1]), header[-1], values[:, :-1], values[:, -1])


def read_train(path: Path) -> Table:
    """Reads the training rows.

    Raises:
        SetupError: The file cannot be read (see `read_table`), or its data is not usable.
    """
    train_table = read_table(path)
    check_data(train_table.names, train_table.x, train_table.y, str(path))
    return train_table


def check_data(names: Sequence[str], x: Array, y: Array, label: str) -> None:
    """Rejects data without enough information for a law.

    Raises:
        SetupError: A value is not finite, a column is constant, or there are too few rows.
    """
    for name, column in zip([*names, "the target"], [*x.T, y], strict=True):
        invalid_rows = np.flatnonzero(~np.isfinite(column))
        if invalid_rows.size:
            row = f"row {invalid_rows[0] + 1} of {len(y)}"
            raise errors.SetupError(
                f"{label}: {name} is {column[invalid_rows[0]]} in {row}. Correct or remove the row."
            )
        if np.abs(column).max(initial=0.0) > MAX_VALUE or 0.0 < np.ptp(column) < 1.0 / MAX_VALUE:
            raise errors.SetupError(f"{label}: {name} has values whose squares overflow. Use other units.")
        if len(y) >= MIN_ROWS and np.ptp(column) == 0.0:
            raise errors.SetupError(f"{label}: {name} is {column[0]} in every row. Remove the column.")
    if len(y) < MIN_ROWS:
        rows = "1 row" if len(y) == 1 else f"{len(y)} rows"
        raise errors.SetupError(f"{label} has {rows}, fewer than a law has constants. Use at least {MIN_ROWS}.")


def make_identifiers(names: Sequence[str]) -> list[str]:
    """Returns unique Python identifiers. Invalid characters become underscores."""
    unique_names: list[str] = []
    for name in names:
        identifier = re.sub(r"\W", "_", name) or "x"
        identifier = f"x{identifier}" if identifier[0].isdigit() else identifier
        identifier = f"{identifier}_" if keyword.iskeyword(identifier) or identifier in ("np", "params") else identifier
        unique_names.append(identifier if identifier not in unique_names else f"{identifier}_{len(unique_names)}")
    return unique_names


def to_matrix(x: npt.ArrayLike, label: str) -> Array:
    """Returns an array of rows by columns.

    Raises:
        SetupError: The value is not a table of numbers.
    """
    try:
        matrix = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.SetupError(f"{label} is not a table of numbers ({error}). Remove text columns.") from error
    if matrix.ndim != 2 or not matrix.size:
        raise errors.SetupError(f"{label} has the shape {matrix.shape}. It needs rows by columns, and at least one.")
    return matrix


def _read_lines(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [line for line in csv.reader(file) if line]
    except OSError as error:
        raise errors.SetupError(
            f"{path} cannot be read ({error.strerror}). Set task.data to a folder with {TRAIN_FILE}."
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise errors.SetupError(f"{path} is not a valid CSV file: {error}.") from error


def _parse_row(path: Path, line_number: int, line: Sequence[str], header: Sequence[str]) -> list[float]:
    if len(line) != len(header):
        cells = "1 cell" if len(line) == 1 else f"{len(line)} cells"
        raise errors.SetupError(
            f"{path}: line {line_number} has {cells}, but the header has {len(header)}. Correct the line."
        )
    for name, cell in zip(header, line, strict=True):
        if not _is_number(cell):
            raise errors.SetupError(f"{path}, line {line_number}: {name} is {cell!r:.40}, not a number. Correct it.")
    return [float(cell) for cell in line]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
