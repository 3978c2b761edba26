"""The routes, one file for each view. A new file is named in `ROUTERS`."""

from collections.abc import Sequence

from fastapi import APIRouter

from atoll.dashboard.routes import runs

ROUTERS: Sequence[APIRouter] = (runs.router,)
