"""A folder of files as one text, and back. Imported by worker processes, so imports are few.

Each file begins with a line that names it. The text evolves like any other: by diffs, rewrites, crossover.
"""

import os
import re

FOLDER = "/"  # instead of a suffix: the program is a folder
FORMAT_NOTE = "The program has several files. Each begins with a line `=== FILE path ===`. Keep these lines unchanged."
MAX_BYTES = 1_000_000
_HEADER = re.compile(r"^=== FILE (\S[^\n]*) ===\n", re.MULTILINE)
_SKIPPED_FOLDERS = ("__pycache__",)


def list_paths(folder: str) -> list[str]:
    """Returns the sorted relative paths of the files of a folder, without hidden ones."""
    files = list[str]()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS]
        files += [os.path.relpath(os.path.join(parent, name), folder) for name in names if not name.startswith(".")]
    return sorted(files)


def join_files(folder: str) -> str:
    """Returns all files of a folder as one text.

    Raises:
        ValueError: A file is not text, the folder is empty, or the files are too long.
    """
    texts = list[str]()
    for path in list_paths(folder):
        with open(os.path.join(folder, path), "rb") as file:
            body = file.read(MAX_BYTES + 1)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not text: move such files out of the folder that evolves") from None
        texts.append(f"=== FILE {path} ===\n{text}" + ("" if text.endswith("\n") or not text else "\n"))
    if not texts:
        raise ValueError("it has no files")
    if sum(map(len, texts)) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} characters: use a smaller folder")
    return "".join(texts)


def split_files(text: str) -> dict[str, str]:
    """Returns the files of a text by their paths.

    Raises:
        ValueError: It does not begin with a file line, or a path leads outside the folder or is repeated.
    """
    headers = list(_HEADER.finditer(text))
    if not headers or text[: headers[0].start()].strip():
        raise ValueError("the program must begin with a line '=== FILE path ==='")
    ends = [header.start() for header in headers[1:]] + [len(text)]
    files = dict[str, str]()
    for head, end in zip(headers, ends, strict=True):
        path = head[1]
        if os.path.isabs(path) or os.path.normpath(path) != path or path.split("/")[0] in ("..", "."):
            raise ValueError(f"{path!r:.80} is not a path in the program's folder")
        if path in files:
            raise ValueError(f"file {path!r:.80} is repeated")
        files[path] = text[head.end() : end]
    return files


def write_files(text: str, folder: str) -> None:
    """Creates a folder and writes the files of a text into it.

    Raises:
        ValueError: The text is not in this format.
    """
    for path, body in split_files(text).items():
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(body.encode())
