"""An agent whose prompt is a parameter, with versions and approvals. Usage: python agent.py QUESTION."""

import contextlib
import sys

from atoll import governed
from atoll.governed import errors

KEY = "agent/prompt"


def answer(prompt: str, question: str) -> str:
    """Your agent."""
    return f"[{prompt}] {question}"  # call your LLM here


def main(question: str = "Where is my parcel?") -> None:
    """Answers with the current prompt, so an approved change works from the next question on."""
    parameters = governed.StoredParameters("agent.db")
    with contextlib.suppress(errors.VersionConflict):  # it exists
        parameters.set(KEY, "Be brief.", "initial prompt", author="ann", expected_version=0)
    prompt, version = parameters.get(KEY)
    print(f"version {version}: {answer(prompt, question)}")
    parameters.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
