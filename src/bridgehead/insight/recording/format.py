"""The file of a recording: gzip-compressed lines of JSON. The first one is the header, the last one an `EndEntry`.

The author of a recording is unknown. Everything that is read is bounded, and the names of its objects are valid names.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from bridgehead.insight.facts.network_state import NetworkState
from bridgehead.insight.findings import Unseen
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .sources import BY_KIND

Json = dict[str, Any]

VERSION = 1
MOST_FILE_BYTES = 64 << 20
MOST_BYTES = 256 << 20  # uncompressed
MOST_LINE_BYTES = 16 << 20
MOST_ENTRIES = 200_000
MOST_DEPTH = 60
MOST_SECONDS = 7 * 86400.0
MOST_TEXT = 2000  # characters of a note

_CHUNK = 1 << 16


class InvalidRecording(Exception):
    """A file that is no recording, or is damaged, or exceeds a limit. The text is one line."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """`began`: epoch seconds. `namespace`: "" if all namespaces were recorded. `program`: the one that recorded."""

    version: int = msgspec.field(name="bridgeheadRecording")
    began: float
    namespace: str = ""
    is_redacted: bool = msgspec.field(default=False, name="redacted")
    program: str = ""


class ObjectEntry(msgspec.Struct, frozen=True, kw_only=True, tag="object"):
    """A change of an object, with the whole object after it. `at`: seconds since the recording began.

    The objects that were there at the beginning are `added`.
    """

    at: float
    change: Literal["added", "modified", "deleted"]
    object: Json


class NetworkEntry(msgspec.Struct, frozen=True, kw_only=True, tag="network"):
    """The state of a node's network namespace."""

    at: float
    node: str
    state: NetworkState


class UnseenEntry(msgspec.Struct, frozen=True, kw_only=True, tag="unseen"):
    """A part of the cluster that could not be recorded."""

    at: float
    unseen: Unseen


class EndEntry(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """The end. `is_cut`: a limit was reached before the user ended the recording."""

    at: float
    is_cut: bool = False


Entry = ObjectEntry | NetworkEntry | UnseenEntry | EndEntry


class Recording(NamedTuple):
    """A whole recording. `entries` are in the order of their times; `seconds` is its duration."""

    header: Header
    entries: tuple[Entry, ...]
    seconds: float


_header = msgspec.json.Decoder(Header)
_entry = msgspec.json.Decoder(Entry)


def encode_line(line: Header | Entry) -> bytes:
    """Return the line, with its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode(chunks: Iterable[bytes]) -> Recording:
    """Return the recording whose file has these bytes. Raises InvalidRecording."""
    lines = _lines(_decompressed(chunks))
    header = _decode_header(next(lines, b""))
    entries: list[Entry] = []
    at = 0.0
    for number, line in enumerate(lines, 2):
        if entries and isinstance(entries[-1], EndEntry):
            raise InvalidRecording(f"line {number}: lines after the end")
        if len(entries) >= MOST_ENTRIES:
            raise InvalidRecording(f"more than {MOST_ENTRIES} entries")
        try:
            entry = _entry.decode(line)
            at = _check(entry, at)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
            raise InvalidRecording(f"line {number}: {_describe(error)}") from None
        entries.append(entry)
    if not entries or not isinstance(entries[-1], EndEntry):
        raise InvalidRecording("the file is cut: its end is missing")
    return Recording(header, tuple(entries), at)


def _describe(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _decode_header(line: bytes) -> Header:
    try:
        header = _header.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise InvalidRecording("not a recording of `bridgehead record`") from None
    if header.version != VERSION:
        raise InvalidRecording(f"version {header.version} of the format, this program reads version {VERSION}")
    if not math.isfinite(header.began) or (header.namespace and check_dns1123_label(header.namespace)):
        raise InvalidRecording("its header is invalid")
    return header


def _check(entry: Entry, after: float) -> float:
    """Return the entry's time. Raises ValueError."""
    if not (math.isfinite(entry.at) and after <= entry.at <= MOST_SECONDS):
        raise ValueError("its time is not after that of the line before")
    if isinstance(entry, ObjectEntry):
        check_object(entry.object)
    elif isinstance(entry, NetworkEntry) and check_dns1123_subdomain(entry.node):
        raise ValueError("invalid name of a node")
    return entry.at


def check_object(obj: Json) -> None:
    """Raise ValueError unless the object is of a recorded kind and has a valid name."""
    version, kind, metadata = obj.get("apiVersion"), obj.get("kind"), obj.get("metadata")
    if not (isinstance(version, str) and isinstance(kind, str) and isinstance(metadata, dict)):
        raise ValueError("not an object of the API")
    source = BY_KIND.get((version, kind))
    if source is None:
        raise ValueError("an object of a kind that is not recorded")
    name, namespace = metadata.get("name"), metadata.get("namespace", "")
    if not isinstance(name, str) or check_dns1123_subdomain(name):
        raise ValueError(f"invalid name of a {kind}")
    if not isinstance(namespace, str) or bool(namespace) != source.is_namespaced:
        raise ValueError(f"invalid namespace of a {kind}")
    if namespace and check_dns1123_label(namespace):
        raise ValueError(f"invalid namespace of a {kind}")
    _check_depth(obj)


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise ValueError("nested too deeply")


def _decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield uncompressed pieces. Raises InvalidRecording, also before a bomb has unfolded."""
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    compressed = total = 0
    for chunk in chunks:
        compressed += len(chunk)
        if compressed > MOST_FILE_BYTES:
            raise InvalidRecording(f"larger than {MOST_FILE_BYTES >> 20} MiB")
        while chunk:
            if inflater.eof:
                raise InvalidRecording("data after its end")
            try:
                piece = inflater.decompress(chunk, _CHUNK)
            except zlib.error:
                raise InvalidRecording("not a recording of `bridgehead record`, or damaged") from None
            total += len(piece)
            if total > MOST_BYTES:
                raise InvalidRecording(f"larger than {MOST_BYTES >> 20} MiB without compression")
            yield piece
            chunk = inflater.unconsumed_tail or (inflater.unused_data if inflater.eof else b"")
    if not inflater.eof:
        raise InvalidRecording("the file is cut: its end is missing" if compressed else "the file is empty")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            begun.append(line)
            if size + len(line) > MOST_LINE_BYTES:
                raise InvalidRecording(f"a line of more than {MOST_LINE_BYTES >> 20} MiB")
            yield b"".join(begun)
            begun, size = [], 0
        begun.append(rest)
        size += len(rest)
        if size > MOST_LINE_BYTES:
            raise InvalidRecording(f"a line of more than {MOST_LINE_BYTES >> 20} MiB")
    if size:
        raise InvalidRecording("the file is cut: its last line is incomplete")
