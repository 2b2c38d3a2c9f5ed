"""One request and its answer, from the parsed head to the metrics.

`app` makes an `Exchange` for each request, and fills it in while it carries the request out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .audit.trail import UNAUDITED, Trail, audit_id_of
from .flowcontrol.apf_controller import Seat
from .http.request import Receive, Request, Scope
from .http.request_info import parse_query, parse_request
from .http.user import CredentialNotes, User


class Exchange:
    """The state of one exchange.

    `user` is None until authentication, which adds to `notes`; `request` is None until authorization. `trail` is that
    of the audit log, `seat` that of flow control. `is_known`: the path exists, and its labels may be metrics.
    `is_refused`: the answer is a Status that no handler made. `is_terminated`: the server ended the request in
    self-defense.
    """

    __slots__ = (
        "audit_id",
        "headers",
        "info",
        "is_known",
        "is_refused",
        "is_terminated",
        "method",
        "notes",
        "query",
        "request",
        "scope",
        "seat",
        "trail",
        "user",
    )

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope.get("method", "GET")  # a WebSocket's scope has none
        # Names are in lower case; the last of several headers with one name wins.
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.query = parse_query(scope["query_string"])
        self.info = parse_request(self.method, scope["path"], self.query)
        self.audit_id = audit_id_of(self.headers)
        self.trail: Trail = UNAUDITED
        self.seat = Seat()
        self.user: User | None = None
        self.notes = CredentialNotes()
        self.request: Request | None = None
        self.is_known = False
        self.is_refused = True
        self.is_terminated = False

    def accept(self, user: User, receive: Receive) -> Request:
        """Return the request of an authorized user."""
        self.is_known = True
        self.request = Request(
            self.info,
            self.method,
            self.query,
            self.headers,
            user,
            self.scope,
            self.trail.capture(receive),
            self.notes.warnings,
            audit_id=self.audit_id,
        )
        return self.request

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings for the client: those about its credential, and those of the request's handlers."""
        return self.notes.warnings

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of admission for the audit event."""
        return {} if self.request is None else self.request.annotations

    def __str__(self) -> str:
        return f"{self.method} {self.scope['path']}"
