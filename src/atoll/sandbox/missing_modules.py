"""Modules that a program imports and that are not installed, with the command that installs them."""

import ast
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

# Modules whose package has another name.
_PACKAGES = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "gitpython",
    "google.generativeai": "google-generativeai",
    "igraph": "python-igraph",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_NOT_FOUND = re.compile(r"No module named ['\"]?([\w.]+)")


def describe_missing(text: str) -> str:
    """Returns a sentence with the remedy if an error names a missing module; otherwise an empty text."""
    match = _NOT_FOUND.search(text)
    return f"Install the missing module: {get_install_command([match[1]])}" if match else ""


def get_install_command(modules: Sequence[str]) -> str:
    """Returns the command that installs modules for this Python."""
    roots = {name: name.partition(".")[0] for name in modules}
    packages = sorted({_PACKAGES.get(name) or _PACKAGES.get(root) or root for name, root in roots.items()})
    return f"{sys.executable} -m pip install {' '.join(packages)}"


def find_missing(source: str, folder: Path) -> Sequence[str]:
    """Returns the modules that a Python text imports and that neither Python nor the folder has.

    Imports inside `try` are optional and not counted.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    optional = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    names = set[str]()
    for node in ast.walk(tree):
        if id(node) in optional:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return sorted(name for name in names if not _is_installed(name, folder))


def _is_installed(name: str, folder: Path) -> bool:
    if name in sys.stdlib_module_names or name in ("atoll", "openevolve"):
        return True
    if (folder / f"{name}.py").exists() or (folder / name).is_dir():
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
