"""Regression data from CSV and Parquet files with named columns of numbers, and the target in the last column."""

import csv
import importlib
import keyword
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll import errors
from atoll.llmsr.laws import derivative
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.law import Array
from atoll.llmsr.laws.least_squares import Rows

TRAIN_FILE, TEST_STEMS = "train.csv", ("test_id", "test_ood")
SUFFIXES = (".csv", ".parquet")
MIN_ROWS = 8  # most laws have about as many constants

_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}

MAX_VALUE = 1e100  # maximal value; its inverse is the minimal range


class Table(NamedTuple):
    """Named columns and a target.

    Attributes:
        names: Names of the variables in a law.
        target: Name of the last column.
        x: Rows by columns.
        y: One value per row.
        floor: Known error of y, divided by its variance. Laws with smaller errors are equally good.
        freedom: Number of independent rows; by default all.
    """

    names: Sequence[str]
    target: str
    x: Array
    y: Array
    floor: float = 0.0
    freedom: float | None = None

    @property
    def rows(self) -> Rows:
        return Rows(np.ascontiguousarray(self.x.T), np.ascontiguousarray(self.y), float(self.y.var()))

    @property
    def num_independent(self) -> int:
        """Number of independent rows, by which the choice of a law weighs errors."""
        return len(self.y) if self.freedom is None else max(2, min(len(self.y), round(self.freedom)))

    @property
    def domain(self) -> Domain:
        return Domain.from_columns(self.x.T)


class TableReader(NamedTuple):
    """Reads tables.

    Attributes:
        target: Name of the column to compute; by default the last one.
        derivative: Name of the time column. The target is then the derivative of the target column by time, and that
            column is a variable.
    """

    target: str | None = None
    derivative: str | None = None

    def read(self, path: Path) -> Table:
        """Reads a CSV or Parquet file.

        Raises:
            SetupError: The file cannot be read, a column is missing, or a value is not a finite number.
        """
        header, values = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
        return self.select(header, values, str(path))

    def read_train(self, path: Path) -> Table:
        """Reads the training rows.

        Raises:
            SetupError: The file cannot be read (see `read`), or its data is not usable.
        """
        train_table = self.read(path)
        check_data(train_table.names, train_table.x, train_table.y, str(path))
        return train_table

    def select(self, header: Sequence[str], values: Array, label: str) -> Table:
        """Returns the variables and the target of named columns.

        Raises:
            SetupError: A column is missing, or a series is too short for a derivative.
        """
        if len(header) < 2:
            raise errors.SetupError(
                f"{label} has one column, {header[0]}. Add at least one variable before the target."
            )
        target = self._find(self.target, header, label) if self.target is not None else len(header) - 1
        if self.derivative is None:
            others = [index for index in range(len(header)) if index != target]
            names = make_identifiers([header[index] for index in others])
            return Table(names, header[target], values[:, others], values[:, target])
        time = self._find(self.derivative, header, label)
        if time == target:
            raise errors.SetupError(f"{label}: {self.derivative} is the time and the target. Set task.target.")
        states = [index for index in range(len(header)) if index != time]
        check_finite(header, values, label)
        columns = [values[:, index] for index in states]
        estimate = derivative.differentiate(columns, values[:, time], states.index(target), label)
        names = make_identifiers([header[index] for index in states])
        floor = estimate.uncertainty / (float(estimate.slopes.var()) or 1.0)
        slope_name = f"d{header[target]}/d{header[time]}"
        return Table(names, slope_name, estimate.columns, estimate.slopes, floor, estimate.freedom)

    def _find(self, name: str, header: Sequence[str], label: str) -> int:
        if name not in header:
            raise errors.SetupError(f"{label} has no column {name!r:.60}, only {', '.join(header)}.")
        return list(header).index(name)


def find_file(folder: Path, stem: str) -> Path | None:
    """Returns the table with a name, as CSV or Parquet; None if the folder has none."""
    paths = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def find_tables(path: Path) -> list[Path]:
    """Returns the training tables: a file, the training file of a folder, or all tables of a folder.

    Raises:
        SetupError: There is none.
    """
    if path.is_file() and path.suffix in SUFFIXES:
        return [path]
    if not path.is_dir():
        raise errors.SetupError(f"{path} is not a folder. Set task.data to a folder with {TRAIN_FILE}, or to a table.")
    train_file = find_file(path, Path(TRAIN_FILE).stem)
    tables = [train_file] if train_file else sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not tables:
        raise errors.SetupError(f"{path} has no table. Set task.data to a folder with {TRAIN_FILE} or other tables.")
    return tables


def has_tables(path: Path) -> bool:
    """Returns whether a path is a table, or a folder with a training table or with nothing but tables."""
    if path.is_file():
        return path.suffix in SUFFIXES
    if find_file(path, Path(TRAIN_FILE).stem) is not None:
        return True
    files = [file for file in path.iterdir() if not file.name.startswith(".")]
    return bool(files) and all(file.suffix in SUFFIXES for file in files)


def check_finite(names: Sequence[str], values: Array, label: str) -> None:
    """Rejects values that are not finite.

    Raises:
        SetupError: A value is not finite.
    """
    for name, column in zip(names, values.T, strict=True):
        invalid_rows = np.flatnonzero(~np.isfinite(column))
        if invalid_rows.size:
            row = f"row {invalid_rows[0] + 1} of {len(column)}"
            raise errors.SetupError(
                f"{label}: {name} is {column[invalid_rows[0]]} in {row}. Correct or remove the row."
            )


def check_data(names: Sequence[str], x: Array, y: Array, label: str) -> None:
    """Rejects data without enough information for a law.

    Raises:
        SetupError: A value is not finite, a column is constant, or there are too few rows.
    """
    check_finite([*names, "the target"], np.column_stack([x, y]), label)
    for name, column in zip([*names, "the target"], [*x.T, y], strict=True):
        if np.abs(column).max(initial=0.0) > MAX_VALUE or 0.0 < np.ptp(column) < 1.0 / MAX_VALUE:
            raise errors.SetupError(f"{label}: {name} has values whose squares overflow. Use other units.")
        if len(y) >= MIN_ROWS and np.ptp(column) == 0.0:
            remedy = "Choose another target." if name == "the target" else "Remove the column."
            raise errors.SetupError(f"{label}: {name} is {column[0]} in every row. {remedy}")
    if len(y) < MIN_ROWS:
        rows = "1 row" if len(y) == 1 else f"{len(y)} rows"
        raise errors.SetupError(f"{label} has {rows}, fewer than a law has constants. Use at least {MIN_ROWS}.")


def make_identifiers(names: Sequence[str]) -> list[str]:
    """Returns unique Python identifiers. Invalid characters become underscores."""
    unique_names: list[str] = []
    for name in names:
        identifier = re.sub(r"\W", "_", unicodedata.normalize("NFKC", name)) or "x"  # as Python reads identifiers
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


def _read_csv(path: Path) -> tuple[list[str], Array]:
    lines = _read_lines(path)
    if len(lines) < 2:
        raise errors.SetupError(f"{path} has no rows. Write a header and one row of numbers per data point.")
    header = [name.strip() for name in lines[0]]
    if len(header) == 1 and (separator := next((mark for mark in _OTHER_SEPARATORS if mark in header[0]), None)):
        name = _OTHER_SEPARATORS[separator]
        raise errors.SetupError(f"The columns of {path} are separated by {name}. Use commas, and decimal points.")
    if all(_is_number(name) for name in header):
        raise errors.SetupError(f"{path} has no header. Name the columns in the first line, the target last.")
    values = [_parse_row(path, line_number, line, header) for line_number, line in enumerate(lines[1:], 2)]
    return header, np.array(values)


def _read_parquet(path: Path) -> tuple[list[str], Array]:
    """Reads a file with polars, or with pandas and pyarrow."""
    failure: Exception | None = None
    for library in ("polars", "pandas"):
        try:
            frame = importlib.import_module(library).read_parquet(path)
        except ImportError:
            continue
        except Exception as error:  # a library has its own errors for files that it cannot read
            failure = failure or error
            continue
        return [str(name) for name in frame.columns], to_matrix(frame.to_numpy(), str(path))
    if failure is not None:
        reason = str(failure).partition("\n")[0]
        raise errors.SetupError(f"{path} is not a valid Parquet file: {reason:.200}.") from failure
    raise errors.SetupError(f"{path} is a Parquet file. Install polars to read it: pip install 'atoll[columnar]'.")


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
            part = "column" if cell.strip() else "row"
            raise errors.SetupError(
                f"{path}, line {line_number}: {name} is {cell!r:.40}, not a number. Correct it, or remove the {part}."
            )
    return [float(cell) for cell in line]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
