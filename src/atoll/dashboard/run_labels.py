"""Names, tags and notes that users give to runs. They are versioned values, so the audit log has author and time."""

import json
from typing import Annotated

from pydantic import BaseModel, Field

from atoll import store
from atoll.dashboard import text_limits

KEY_PREFIX = "run_labels/"
MAX_TAGS = 20

Tag = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[^,\x00-\x1f]+$")]
Line = Annotated[str, Field(max_length=120, pattern=r"^[^\x00-\x1f]*$")]


class Label(BaseModel):
    """Name, tags and note of a run; all empty by default."""

    name: Line = ""
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = []
    note: Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]*$")] = ""


def load_label(run_store: store.Store, run: str) -> Label:
    """Returns the label of a run; an unreadable one is empty."""
    stored = run_store.change_log().get_value(f"{KEY_PREFIX}{run}")
    try:
        return Label() if stored is None else Label.model_validate(json.loads(json.loads(stored[0])))
    except ValueError:
        return Label()


def save_label(run_store: store.Store, run: str, label: Label, author: str) -> None:
    """Stores the label of a run as a new version."""
    if load_label(run_store, run) == label:
        return
    data = text_limits.to_json_data(label.model_dump())
    run_store.versions().set(
        f"{KEY_PREFIX}{run}", json.dumps(data, sort_keys=True), "name, tags and note of the run", author
    )
