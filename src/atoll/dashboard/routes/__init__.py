"""Routes, one file per view. Add new files to `ROUTERS`."""

from collections.abc import Sequence

from fastapi import APIRouter

from atoll.dashboard.routes import (
    agents,
    answer,
    candidates,
    controls,
    episodes,
    events,
    governance,
    islands,
    lineage,
    metrics,
    models,
    playbook,
    runs,
    worldlines,
)

ROUTERS: Sequence[APIRouter] = (
    runs.router,
    answer.router,
    lineage.router,
    candidates.router,
    islands.router,
    models.router,
    controls.router,
    events.router,
    episodes.snapshots_router,
    metrics.router,
    worldlines.router,
    episodes.router,
    playbook.router,
    governance.router,
    governance.signed_router,
    agents.router,
)
