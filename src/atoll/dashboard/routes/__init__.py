"""The routes, one file for each view. A new file is named in `ROUTERS`."""

from collections.abc import Sequence

from fastapi import APIRouter

from atoll.dashboard.routes import governance, life, playbook, runs, worldlines

ROUTERS: Sequence[APIRouter] = (runs.router, worldlines.router, life.router, playbook.router, governance.router)
