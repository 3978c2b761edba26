"""A parameter of an agent in production: used, proposed, approved, changed and rolled back. Usage: python agent.py."""

from atoll import governed

KEY = "agent/prompt"


def answer(parameters: governed.ParameterStore, question: str) -> str:
    """Your agent. It reads its prompt from the store at every call, so an approved change works at once."""
    return f"[{parameters.get(KEY).value}] {question}"  # call your LLM here


def main() -> None:
    """Uses the prompt, changes it, and rolls it back. Every change has an author and a reason."""
    parameters = governed.StoredParameters("agent.db")
    version = parameters.set(KEY, "Be brief.", "initial prompt", author="ann")
    print(answer(parameters, "Where is my parcel?"))
    parameters.set(KEY, "Be brief. Name the next step.", "users ask what to do next", author="ann")
    print(answer(parameters, "Where is my parcel?"))
    parameters.rollback(KEY, version, "complaints", author="bea")
    print(answer(parameters, "Where is my parcel?"))
    parameters.close()


if __name__ == "__main__":
    main()
