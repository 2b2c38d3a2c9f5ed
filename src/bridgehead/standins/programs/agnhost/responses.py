"""HTTP in the stand-in for agnhost: sessions of its servers, and their responses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridgehead.standins.programs.http_session import AccessLog, Handler, HttpResponse, HttpSession
from bridgehead.standins.programs.stream_server import SessionFactory

_PRODUCT: Final = "bridgehead-agnhost"


def sessions(site: Handler, log: AccessLog | None = None) -> SessionFactory:
    """A factory of sessions in which `site` answers the requests."""
    return lambda peer: HttpSession(site, peer, _PRODUCT, log)


def text(content: str, status: int = 200) -> HttpResponse:
    return HttpResponse(content.encode(), status, content_type="text/plain; charset=utf-8")


def json(value: Any, status: int = 200) -> HttpResponse:
    """JSON as text, as agnhost sends it."""
    return HttpResponse(msgspec.json.encode(value), status, content_type="text/plain; charset=utf-8")


def not_found() -> HttpResponse:
    return text("404 page not found\n", 404)
