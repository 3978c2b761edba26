"""A folder of files as one text, and back; imported by the processes of candidates, so it needs little.

Every file begins with a line that names it, and the text evolves like any other: by diffs, rewrites, crossover.
"""

import os
import re

FOLDER = "/"  # instead of a suffix: the program is a folder
RULE = "The program is several files. Each begins with a line `=== FILE path ===`, which stays as it is."
MOST_BYTES = 1_000_000
_HEAD = re.compile(r"^=== FILE (\S[^\n]*) ===\n", re.MULTILINE)
_SKIPPED = ("__pycache__",)


def paths(folder: str) -> list[str]:
    """Returns the files of a folder in their order, by their paths in it; hidden ones are none."""
    found = list[str]()
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        found += [os.path.relpath(os.path.join(place, name), folder) for name in names if not name.startswith(".")]
    return sorted(found)


def join(folder: str) -> str:
    """Returns all files of a folder as one text.

    Raises:
        ValueError: One is no text, there are none, or they are too long.
    """
    texts = list[str]()
    for path in paths(folder):
        with open(os.path.join(folder, path), "rb") as file:
            body = file.read(MOST_BYTES + 1)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no text: keep such files beside the folder that evolves") from None
        texts.append(f"=== FILE {path} ===\n{text}" + ("" if text.endswith("\n") or not text else "\n"))
    if not texts:
        raise ValueError("it holds no files")
    if sum(map(len, texts)) > MOST_BYTES:
        raise ValueError(f"it holds more than {MOST_BYTES:,} characters: evolve a smaller folder")
    return "".join(texts)


def split(text: str) -> dict[str, str]:
    """Returns the files of a text by their paths.

    Raises:
        ValueError: It does not begin with the line of a file, or a path leads elsewhere or comes twice.
    """
    heads = list(_HEAD.finditer(text))
    if not heads or text[: heads[0].start()].strip():
        raise ValueError("the program must begin with a line '=== FILE path ==='")
    ends = [head.start() for head in heads[1:]] + [len(text)]
    found = dict[str, str]()
    for head, end in zip(heads, ends, strict=True):
        path = head[1]
        if os.path.isabs(path) or os.path.normpath(path) != path or path.split("/")[0] in ("..", "."):
            raise ValueError(f"{path!r:.80} is no path in the program's folder")
        if path in found:
            raise ValueError(f"there are two files {path!r:.80}")
        found[path] = text[head.end() : end]
    return found


def write(text: str, folder: str) -> None:
    """Writes the files of a text into a folder, which is made.

    Raises:
        ValueError: It is no such text.
    """
    for path, body in split(text).items():
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(body.encode())
