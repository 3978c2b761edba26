"""A model server on loopback, for tests and benches; `python -m atoll.testing.server` runs it alone."""

from atoll.testing.server.server import Fault, ModelServer, Request

__all__ = ["Fault", "ModelServer", "Request"]
