"""Local LLM server for tests and benchmarks; `python -m atoll.testing.server` runs it alone."""

from atoll.testing.server.server import Fault, ModelServer, Request

__all__ = ["Fault", "ModelServer", "Request"]
