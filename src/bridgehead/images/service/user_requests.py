"""Requests of the puller to the process that has kept the rights of the user who started the lab.

Pure: no I/O, no clock, no randomness. A request is a datagram of JSON, with a descriptor of a pipe to which the answer
is written. The puller is not trusted with these rights, so each request names what the user would permit anyway.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_REQUEST: Final = 1024  # bytes


class ReadConfiguration(msgspec.Struct, frozen=True, tag=True):
    """The answer is the configuration for pulls from a registry, a `PullerConfig` as JSON."""

    registry: str


class LendBlob(msgspec.Struct, frozen=True, tag=True):
    """The answer is the name of a link to the blob in the store's `ingest`, "" without one."""

    digest: str
    size: int


class AddBlob(msgspec.Struct, frozen=True, tag=True):
    """Add a blob of the store to the user's cache. The answer is that of `LendBlob`."""

    digest: str
    size: int


class TrimBlobs(msgspec.Struct, frozen=True, tag=True):
    """Remove the blobs of the user's cache that are in no lab's store. The answer is the number of bytes."""


UserRequest = ReadConfiguration | LendBlob | AddBlob | TrimBlobs
_decoder: msgspec.json.Decoder[UserRequest] = msgspec.json.Decoder(UserRequest)


def encode(request: UserRequest) -> bytes:
    return msgspec.json.encode(request)


def decode(datagram: bytes) -> UserRequest:
    """Raises msgspec.MsgspecError."""
    return _decoder.decode(datagram)
