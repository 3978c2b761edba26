"""The page and its scripts, which are files of this package, and a plain list of the API."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

PAGE = Path(__file__).parent / "page"
STATIC = "/ui/static"

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.get("/ui")
@router.get("/ui/")
def serve_page() -> Response:
    """Returns the page; all its views are one file and its modules."""
    return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})


class _RevalidatedFiles(StaticFiles):
    """Files that a browser keeps and asks about each time, so that a new version is seen at once."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


def static_files() -> StaticFiles:
    return _RevalidatedFiles(directory=PAGE)


@router.get("/docs")
def serve_docs(request: Request) -> Response:
    """Lists the API in plain words; a script from elsewhere would draw it nicer, and none is loaded."""
    paths = request.app.openapi()["paths"]
    lines = [f"Atoll {request.app.version}: what this server answers. The whole of it: /openapi.json", ""]
    for path, methods in paths.items():
        for method, operation in methods.items():
            lines += [f"{method.upper():5} {path}", *_describe_operation(operation), ""]
    return Response("\n".join(lines), media_type="text/plain; charset=utf-8")


def _describe_operation(operation: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"      {line.strip()}" for line in str(operation.get("description", "")).splitlines() if line.strip())
    for parameter in operation.get("parameters", ()):
        yield f"        {parameter['name']:14} {parameter.get('description', '')}".rstrip()
