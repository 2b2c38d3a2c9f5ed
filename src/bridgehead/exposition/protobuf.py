"""Metrics as messages of io/prometheus/client/metrics.proto, each after its length.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from bridgehead.protobuf_wire import FIXED64, VARINT, field, tag, varint

# MetricType, and the field of Metric that has the value.
_COUNTER, _GAUGE, _SUMMARY, _UNTYPED, _HISTOGRAM = range(5)
_TYPES: Final = {"counter": _COUNTER, "gauge": _GAUGE, "summary": _SUMMARY, "histogram": _HISTOGRAM}
_VALUE_FIELDS: Final = {_GAUGE: 2, _COUNTER: 3, _SUMMARY: 4, _UNTYPED: 5, _HISTOGRAM: 7}
_LABEL: Final = 1

_Labels = tuple[tuple[str, str], ...]


def encode(families: Iterable[Metric]) -> bytes:
    """Return all families that have samples, as delimited MetricFamily messages."""
    encoded = (_encode_family(family) for family in families if family.samples)
    return b"".join(varint(len(one)) + one for one in encoded)


def _encode_family(family: Metric) -> bytes:
    kind = _TYPES.get(family.type, _UNTYPED)
    name = family.samples[0].name if kind == _COUNTER else family.name  # the library's name of a counter lacks _total
    metrics = _encode_distributions(family, kind) if kind in (_HISTOGRAM, _SUMMARY) else _encode_values(family, kind)
    return b"".join(
        (_text(1, name), _text(2, family.documentation), _integer(3, kind), *(field(4, metric) for metric in metrics))
    )


def _encode_values(family: Metric, kind: int) -> Iterable[bytes]:
    number = _VALUE_FIELDS[kind]
    for sample in family.samples:
        yield _encode_labels(_labels_of(sample)) + field(number, _double(1, sample.value))


def _encode_distributions(family: Metric, kind: int) -> Iterable[bytes]:
    """Yield histograms or summaries: the text format has several samples for each, with the same labels but one."""
    marker, repeated = ("le", _encode_bucket) if kind == _HISTOGRAM else ("quantile", _encode_quantile)
    parts: dict[_Labels, dict[str, bytes]] = {}
    for sample in family.samples:
        labels = _labels_of(sample, without=marker)
        found = parts.setdefault(labels, {"count": b"", "sum": b"", "repeated": b""})
        suffix = sample.name.removeprefix(family.name)
        if marker in sample.labels:
            found["repeated"] += field(3, repeated(sample))
        elif suffix == "_count":
            found["count"] = _integer(1, int(sample.value))
        elif suffix == "_sum":
            found["sum"] = _double(2, sample.value)
    number = _VALUE_FIELDS[kind]
    for labels, found in parts.items():
        yield _encode_labels(labels) + field(number, found["count"] + found["sum"] + found["repeated"])


def _encode_bucket(sample: Sample) -> bytes:
    return _integer(1, int(sample.value)) + _double(2, float(sample.labels["le"]))


def _encode_quantile(sample: Sample) -> bytes:
    return _double(1, float(sample.labels["quantile"])) + _double(2, sample.value)


def _labels_of(sample: Sample, without: str = "") -> _Labels:
    return tuple((name, value) for name, value in sample.labels.items() if name != without)


def _encode_labels(labels: _Labels) -> bytes:
    return b"".join(field(_LABEL, _text(1, name) + _text(2, value)) for name, value in labels)


def _text(number: int, value: str) -> bytes:
    return field(number, value.encode())


def _integer(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def _double(number: int, value: float) -> bytes:
    return tag(number, FIXED64) + struct.pack("<d", value)
