"""Explains why a file or folder is not a task, and what to do."""

from pathlib import Path

CONFIG_FILE = "atoll.toml"
_TASK_SETTINGS = f'Write {CONFIG_FILE} with system = "llmsr" and, in the section [task], function = "NAME".'


def explain_file(task: Path, file: Path) -> str:
    """Returns why a file is not a task, and what to run instead."""
    text = file.read_text("utf-8", "replace") if file.suffix == ".py" else ""
    if (file.parent / CONFIG_FILE).is_file():
        return f"{task} is a file of a task folder. Run the folder: 'atoll run {task.parent}'."
    if "atoll.evolve(" in text:
        return f"{task} calls atoll.evolve. Run it with Python: 'python {task}'."
    if "def inputs(" in text and "def evaluate(" in text:
        return f"{task} is a task file, but no {CONFIG_FILE} is beside it. {_TASK_SETTINGS}"
    kind = "a text" if file.suffix in (".md", ".txt", ".rst") else "a program"
    return f"{task} is {kind}. Name its evaluator too: 'atoll run {task} EVALUATOR'."


def explain_folder(task: Path, folder: Path) -> str:
    """Returns why a folder is not a task, and what is missing."""
    if (folder / "task.py").is_file():
        return f"{task} has task.py, but no {CONFIG_FILE}. {_TASK_SETTINGS}"
    if any(folder.glob("initial_program*")) and not (folder / "evaluator.py").is_file():
        return f"{task} has an initial program, but no evaluator.py. Write evaluate(path) in it."
    return (
        f"{task} has no {CONFIG_FILE}, no data (train.csv) and no OpenEvolve program (initial_program.py with "
        "evaluator.py). Its README.md may name another command. 'atoll init' creates a task folder."
    )
