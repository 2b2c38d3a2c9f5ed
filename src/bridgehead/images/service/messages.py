"""Messages between a kubelet and the puller, on the puller's Unix socket.

Pure: no I/O, no clock, no randomness. A message is JSON on one line. The kubelet sends one request. The puller answers
a `PullRequest` by `Started` when it contacts a registry, then `Pulled` or `Failed`, and a `CollectRequest` by
`Collected` or `Failed`; then it closes the connection.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.images import errors
from bridgehead.images.errors import ImageError, PullFailed
from bridgehead.images.registry.docker_config import Credential

MAX_LINE: Final = 4 << 20  # bytes; the credentials of a request are in it
_KINDS: Final = {kind.__name__: kind for kind in (errors.NotFound, errors.Denied, errors.Unreachable, errors.BadImage)}


class PullRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`image` is a name as in a Pod."""

    image: str
    credentials: tuple[Credential, ...] = ()


class CollectRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Thresholds are percent of the disk. Images that were used in the last `minimum_age` seconds stay; `last_used` are
    times that the node knows, in seconds since the epoch, by the images' names in the store."""

    high_threshold: int
    low_threshold: int
    minimum_age: float
    last_used: dict[str, float] = {}


class Started(msgspec.Struct, frozen=True, tag=True):
    pass


class Pulled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`size` is that of the download, in bytes; the times are seconds, without and with waiting for other pulls."""

    id: str
    size: int
    seconds: float
    waiting_seconds: float


class Collected(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Bytes that were to be freed and that were; the disk's size and how much of it was used before, in percent."""

    wanted: int
    freed: int
    capacity: int
    percent: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """`kind` is the name of a class in `errors`."""

    kind: str
    message: str


Request = PullRequest | CollectRequest
Answer = Started | Pulled | Collected | Failed
_encoder = msgspec.json.Encoder()
_request_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_answer_decoder: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def encode(message: Request | Answer) -> bytes:
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """Raises msgspec.MsgspecError."""
    return _request_decoder.decode(line)


def decode_answer(line: bytes) -> Answer:
    """Raises msgspec.MsgspecError."""
    return _answer_decoder.decode(line)


def failure_of(error: ImageError) -> Failed:
    return Failed(type(error).__name__, str(error))


def error_of(failure: Failed) -> ImageError:
    """Return the exception for a failure."""
    return _KINDS.get(failure.kind, PullFailed)(failure.message)
