"""The runs of a store, and one of them at a glance."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

import atoll
from atoll.dashboard import security
from atoll.dashboard.given import Kept

router = APIRouter(prefix="/api", tags=["runs"])


class Session(BaseModel):
    """What a page needs to know before anything else."""

    version: str
    store: str
    can_change: bool


@router.get("/session")
def session(request: Request, kept: Kept) -> Session:
    """Says whose store this is, and whether this browser may change anything."""
    return Session(version=atoll.__version__, store=kept.database.name, can_change=security.can_change(request.scope))
