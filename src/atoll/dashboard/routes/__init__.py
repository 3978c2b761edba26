"""The routes, one file for each view. A new file is named in `ROUTERS`."""

from collections.abc import Sequence

from fastapi import APIRouter

from atoll.dashboard.routes import candidates, events, governance, life, lineage, playbook, runs, worldlines

ROUTERS: Sequence[APIRouter] = (
    runs.router,
    lineage.router,
    candidates.router,
    events.router,
    worldlines.router,
    life.router,
    playbook.router,
    governance.router,
)
