"""Messages between a speaker and its ExaBGP process: lines of JSON.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

RequestKind = Literal["open", "close", "tear down", "route", "end of routes", "ping"]


class Request(NamedTuple):
    """A request to the process, about the session with `peer`.

    | kind | meaning | text |
    | --- | --- | --- |
    | open | have this session, anew if it is there | its settings (`exabgp.render_settings`) |
    | close | end it without a NOTIFICATION, after the peer has been sent all that was requested | |
    | tear down | end it with a NOTIFICATION: Cease, BFD Down (RFC 9384); then it connects anew | |
    | route | announce or withdraw a route | `exabgp.render_route` |
    | end of routes | send the end-of-RIB marker of a family | "4" or "6" |
    | ping | answer "pong"; about no session | |

    `number`: the one in the answer "up"; of the kind "open" the seconds between KEEPALIVE messages, 0: a third of the
    hold time. A request for a session that has ended since is dropped, so that no route of an ended session gets into
    its successor.
    """

    kind: RequestKind
    peer: str
    number: int = 0
    text: str = ""


class Answer(NamedTuple):
    """A report of the process about the session with `peer`.

    "done" and "refused" answer a request of the kind "route", "closed" one of the kind "close"; "pong" shows that the
    process runs and reads. All others are the session's state: "connecting" at first, "connected" by TCP, "open" (the
    peer's OPEN message is there, with the AS number `number`), "up", as the session `number`, and "down"; "refresh":
    the peer wants all routes of the IP version `number` again.
    `reason`: why it was refused, went down, or does not come up; of attempts that fail alike the first is reported.
    `versions`: of a session that is "up", the IP versions whose routes both ends take.
    """

    kind: Literal["connecting", "connected", "open", "up", "down", "done", "refused", "closed", "pong", "refresh"]
    peer: str
    number: int = 0
    reason: str = ""
    versions: tuple[int, ...] = ()


def render(message: Request | Answer) -> bytes:
    """Return a message as a line."""
    return json.dumps(list(message), separators=(",", ":")).encode() + b"\n"


def parse_request(line: bytes | str) -> Request:
    """Parse a line of the speaker."""
    return Request(*json.loads(line))


def parse_answer(line: bytes | str) -> Answer:
    """Parse a line of the process."""
    kind, peer, number, reason, versions = json.loads(line)
    return Answer(kind, peer, number, reason, tuple(versions))
