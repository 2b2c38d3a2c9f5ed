"""Media types of request bodies and answers.

The server works with JSON. `bodies` converts YAML, and protobuf in request bodies; answers are never protobuf. Clients
ask for tables by parameters of the media type: `as=Table`, `as=PartialObjectMetadata`.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes API concepts "Resource representations" and "Receiving resources as Tables".
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.errors import not_acceptable
from bridgehead.media_types import JSON, PROTOBUF, YAML, MediaType, parse_accept

from .request_info import Query, is_true

_ANY = ("*/*", "application/*")
_FORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_STREAMS = tuple(f"{one};stream=watch" for one in (JSON, PROTOBUF))


def choose(header: str, *, tables: bool = True, protobuf: bool = True, watch: bool = False) -> MediaType:
    """Return the first accepted media type that the server offers; its `type` is JSON, YAML or PROTOBUF. Raises a 406.

    `tables`: other forms than the object itself are offered. `protobuf`: the object itself is offered in protobuf;
    its metadata always are, tables never. `watch`: the answer is a watch, for which YAML is not offered.
    """
    if not header:
        return MediaType(JSON)
    for accepted in parse_accept(header):
        chosen, form = JSON if accepted.type in _ANY else accepted.type, accepted.form
        if chosen not in (JSON, YAML, PROTOBUF):
            continue
        if form and not (tables and _is_offered(accepted, chosen)):
            continue
        if chosen == PROTOBUF and not form and not protobuf:
            continue
        if watch and chosen == YAML:
            raise not_acceptable(_STREAMS)
        return MediaType(chosen, form, accepted.group, accepted.version, accepted.stream)
    raise not_acceptable((JSON, YAML, PROTOBUF))


def _is_offered(accepted: MediaType, chosen: str) -> bool:
    if accepted.group != "meta.k8s.io" or accepted.version not in ("v1", "v1beta1"):
        return False
    return accepted.form in _FORMS and not (accepted.form == "Table" and chosen == PROTOBUF)


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def wants_indented(query: Query, headers: Mapping[bytes, bytes]) -> bool:
    """Whether the answer is for a person: `?pretty`, curl, wget or a browser."""
    if "pretty" in query:
        return is_true(query, "pretty")
    return headers.get(b"user-agent", b"").startswith((b"curl", b"Wget", b"Mozilla/5.0"))
