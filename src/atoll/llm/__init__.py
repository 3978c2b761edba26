"""Language models behind one protocol."""

from atoll.llm.llm import LLM, Durable, Reply

__all__ = ["LLM", "Durable", "Reply"]
