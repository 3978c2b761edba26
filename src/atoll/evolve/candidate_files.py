"""Writes candidates to files. Imported by worker processes, so imports are few."""

from pathlib import Path

from atoll.programs.evaluation import folder_text


def write_file(suffix: str, content: str) -> Path:
    """Writes a candidate to a file in the working directory of its evaluation."""
    path = Path(f"candidate{suffix}").absolute()
    path.write_text(content, encoding="utf-8")
    return path


def write_folder(content: str) -> Path:
    """Writes the files of a candidate to a new folder."""
    root = Path("candidate").absolute()
    folder_text.write_files(content, str(root))
    return root
