"""Representations: how an object becomes the text of a candidate, and a candidate an object again."""

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal

from atoll import errors, function
from atoll.evolve.candidate_files import write_file, write_folder
from atoll.llmsr import build as functions
from atoll.llmsr import source
from atoll.programs import parameter_search
from atoll.programs.evaluation import folder_text
from atoll.programs.program_search import LANGUAGES

type Kind = Literal["function", "program", "file", "folder", "text", "texts", "parameters"]

_MAX_FILE_BYTES = 1_000_000  # larger files are not source text


@dataclass(frozen=True, slots=True)
class Representation:
    """An object as the text of a candidate.

    Attributes:
        content: Text of the initial candidate.
        decode: Turns a text into the argument of the evaluator; sent to the sandbox.
        restore: Turns a text into the object that the caller gets.
        suffix: Suffix of a file with the text.
        initial_parameters: The parameters as they were given; None for other kinds.
    """

    kind: Kind
    content: str
    decode: Callable[[str], Any]
    restore: Callable[[str], Any]
    suffix: str
    initial_parameters: Mapping[str, Any] | None = None

    @property
    def is_code(self) -> bool:
        """True if it is executed, so that it needs a sandbox."""
        return self.kind in ("function", "program", "file", "folder")

    @property
    def language(self) -> str:
        if self.kind in ("text", "texts"):
            return "text"
        if self.kind == "folder":
            return LANGUAGES[folder_text.FOLDER]
        return LANGUAGES.get(self.suffix, self.suffix.lstrip(".") or "text")


def choose_representation(initial: Any, kind: str | None = None) -> Representation:
    """Chooses the representation of an object.

    Raises:
        SetupError: The object cannot evolve.
    """
    match initial:
        case Path():
            return _represent_path(initial)
        case str():
            return _represent_text(initial, kind)
        case Mapping() if initial and all(isinstance(value, str) for value in initial.values()):
            texts = {str(name): text for name, text in initial.items()}
            return Representation("texts", json.dumps(texts, ensure_ascii=False), json.loads, json.loads, ".json")
        case Mapping() if initial:
            tunables = parameter_search.parse_tunables(initial)
            initial_content = parameter_search.format_point(tunables, [tunable.start for tunable in tunables])
            return Representation("parameters", initial_content, json.loads, json.loads, ".json", dict(initial))
        case _ if callable(initial):
            _check_function(initial)
            names = functions.collect_names(initial)
            make_skeleton = partial(function.PyAstSkeleton, names=names)
            return Representation(
                "function", source.get_function_source(initial).text, make_skeleton, make_skeleton, ".py"
            )
    raise errors.SetupError(
        f"{initial!r:.60} cannot evolve. Give a function, a text, a Path, a dict of texts or a dict of parameters."
    )


def _check_function(initial: Any) -> None:
    """Raises SetupError for a callable without source that can change."""
    name = getattr(initial, "__name__", type(initial).__name__)
    if not isinstance(initial, FunctionType):
        kind = "built into Python" if isinstance(initial, BuiltinFunctionType | type) else "an object that is called"
        raise errors.SetupError(
            f"{name} is {kind}, so it has no source that can evolve. Pass a function that you wrote with 'def'."
        )
    if name == "<lambda>":
        raise errors.SetupError("A lambda cannot evolve. Write the function with 'def', so that its lines can change.")


def _represent_text(text: str, kind: str | None) -> Representation:
    if kind not in (None, "program", "text"):
        raise errors.SetupError(f"kind is {kind!r}. Give 'program' or 'text'.")
    if not text.strip():
        raise errors.SetupError("The initial text is empty. Give a text to start from.")
    if kind == "program" or (kind is None and _is_program(text)):
        return Representation("program", text, str, str, ".py")
    return Representation("text", text, str, str, ".txt")


def _is_program(text: str) -> bool:
    """Returns whether a text is Python with a definition. Many prompts are valid Python expressions."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in body)


def _represent_path(path: Path) -> Representation:
    if path.is_dir():
        files = {str(file.relative_to(path)): _read(file) for file in sorted(path.rglob("*")) if _is_source(path, file)}
        if not files:
            raise errors.SetupError(f"{path} has no text file that can evolve. Give another folder.")
        ended = {name: text if text.endswith("\n") or not text else f"{text}\n" for name, text in files.items()}
        content = "".join(f"=== FILE {name} ===\n{text}" for name, text in ended.items())
        return Representation("folder", content, write_folder, folder_text.split_files, ".txt")
    return Representation("file", _read(path), partial(write_file, path.suffix), str, path.suffix)


def _is_source(folder: Path, path: Path) -> bool:
    is_hidden = any(part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts)
    return (
        path.is_file() and not is_hidden and path.stat().st_size <= _MAX_FILE_BYTES and b"\0" not in path.read_bytes()
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"{path} cannot be read. Give a text file or a folder with text files.") from error
