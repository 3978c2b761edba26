"""Feedback: measurements that come in by report and go out by query."""

from atoll.governed.feedback.channel import FeedbackChannel, ListsEntities
from atoll.governed.feedback.database import SQLFeedback
from atoll.governed.feedback.files import FileFeedback
from atoll.governed.feedback.memory import MemoryFeedback
from atoll.governed.feedback.record import EntityRequired, Feedback, MetricRequired

__all__ = [
    "EntityRequired",
    "Feedback",
    "FeedbackChannel",
    "FileFeedback",
    "ListsEntities",
    "MemoryFeedback",
    "MetricRequired",
    "SQLFeedback",
]
