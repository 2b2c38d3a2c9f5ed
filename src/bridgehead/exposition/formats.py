"""Choice of a format by an Accept header, and its encoding.

Pure: no I/O, no clock, no randomness. Source: `Negotiate` of github.com/prometheus/common/expfmt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Final

from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from . import protobuf

disable_created_metrics()  # type: ignore[no-untyped-call]

_PROTOBUF_MESSAGE: Final = "io.prometheus.client.MetricFamily"
_MAX_ENTRIES: Final = 64  # of an Accept header


class Format(Enum):
    """A format; its value is the Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PROTOBUF = f"application/vnd.google.protobuf; proto={_PROTOBUF_MESSAGE}; encoding=delimited"


class Families(Collector):
    """Families that were collected before, so that another thread may render them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def render(registry: Collector, accept: str = "") -> tuple[bytes, str]:
    """Return the metrics in the format for an Accept header, and its Content-Type."""
    chosen = choose(accept)
    match chosen:
        case Format.TEXT:
            page = generate_latest(registry)
        case Format.OPENMETRICS:
            page = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        case Format.PROTOBUF:
            page = protobuf.encode(registry.collect())
    return page, chosen.value


@lru_cache(maxsize=64)
def choose(accept: str) -> Format:
    """Return the first known format in the order of preference; text if there is none."""
    for type_, parameters in _parse(accept):
        version = parameters.get("version", "")
        match type_:
            case "application/vnd.google.protobuf":
                if parameters.get("proto") == _PROTOBUF_MESSAGE and parameters.get("encoding") == "delimited":
                    return Format.PROTOBUF
            case "text/plain" if version in ("", "0.0.4"):
                return Format.TEXT
            case "application/openmetrics-text" if version in ("", "0.0.1", "1.0.0"):
                return Format.OPENMETRICS
    return Format.TEXT


def _parse(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the media types of an Accept header with their parameters, the preferred ones first."""
    entries = []
    for entry in accept.split(",")[:_MAX_ENTRIES]:
        type_, *rest = (part.strip() for part in entry.split(";"))
        parameters = {
            key.strip().lower(): value.strip().strip('"') for key, _, value in (one.partition("=") for one in rest)
        }
        try:
            quality = float(parameters.get("q", "1"))
        except ValueError:
            quality = 0.0
        entries.append((-quality, type_.lower(), parameters))
    entries.sort(key=lambda entry: entry[0])
    for _, type_, parameters in entries:
        yield type_, parameters
