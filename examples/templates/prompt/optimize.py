"""Evolves a prompt on examples. Usage: python optimize.py openai:gpt-5-mini."""

import json
import sys
from pathlib import Path
from typing import Any

import atoll
from atoll import errors, llm

LINES = Path(__file__).with_name("examples.jsonl").read_text("utf-8").splitlines()
EXAMPLES = [json.loads(line) for line in LINES if line.strip()]
PROMPT = "Classify the message of a customer."  # the initial prompt: put yours here


def make_evaluator(model: llm.LLM) -> Any:
    def evaluate(prompt: str, example: dict[str, str]) -> dict[str, Any]:
        """Answers with exactly one of the words that the examples expect."""  # the LLM reads this as the purpose
        answer = model(f"{prompt}\n\n{example['question']}").text.strip().lower()
        is_right = answer.rstrip(".") == example["expected"]
        feedback = "" if is_right else f"The answer was {answer[:60]!r}; it should be {example['expected']!r}."
        return {"score": float(is_right), "output": answer, "expected": example["expected"], "feedback": feedback}

    return evaluate


def main(name: str = "openai:gpt-5-mini") -> None:
    """Evolves the prompt with an LLM, and prints the result."""
    model = llm.make_llm(name)
    if model is None:
        raise errors.SetupError("Name an LLM, such as openai:gpt-5-mini.")
    result = atoll.evolve(
        PROMPT, make_evaluator(model), llm=model, data=EXAMPLES, test=0.3, budget="150evals", store="atoll.db"
    )
    print(result)
    print(result.best)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except errors.SetupError as error:  # no API key, no examples, a missing package: the message says what to do
        raise SystemExit(str(error)) from None
