"""The routes, one file for each view. A new file is named in `ROUTERS`."""

from collections.abc import Sequence

from fastapi import APIRouter

from atoll.dashboard.routes import (
    candidates,
    controls,
    events,
    governance,
    islands,
    life,
    lineage,
    metrics,
    models,
    playbook,
    runs,
    snapshots,
    worldlines,
)

ROUTERS: Sequence[APIRouter] = (
    runs.router,
    lineage.router,
    candidates.router,
    islands.router,
    models.router,
    controls.router,
    events.router,
    snapshots.router,
    metrics.router,
    worldlines.router,
    life.router,
    playbook.router,
    governance.router,
)
