"""Reads the files of OpenEvolve: folders, configurations, checkpoints and names of LLMs."""

from atoll.programs.openevolve.checkpoints import find_task_folder, read_programs
from atoll.programs.openevolve.folder import make_sections
from atoll.programs.openevolve.model_names import choose_model_name, rename_options

__all__ = ["choose_model_name", "find_task_folder", "make_sections", "read_programs", "rename_options"]
