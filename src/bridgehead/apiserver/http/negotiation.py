"""In which form a client wants its answer, and in which it sent its body (pure).

JSON is what everything here speaks; YAML and bodies in protobuf are converted in `bodies`, answers are never protobuf.
`as=Table` and `as=PartialObjectMetadata` are asked for by parameters of the media type
(source: Kubernetes API concepts "Resource representations" and "Receiving resources as Tables").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bridgehead.apiserver.errors import not_acceptable

from .paths import Query, is_true

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class MediaType:
    """One entry of an Accept header. `form` is "", "Table", "PartialObjectMetadata" or "PartialObjectMetadataList"."""

    type: str
    form: str = ""
    group: str = ""
    version: str = ""
    stream: bool = False


@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """The client's wishes, the most wanted first."""
    wishes = []
    for place, entry in enumerate(header.split(",")):
        name, *parameters = (part.strip() for part in entry.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        try:
            quality = float(values.get("q", 1))
        except ValueError:
            quality = 0.0
        wish = MediaType(
            name.lower(),
            values.get("as", ""),
            values.get("g", ""),
            values.get("v", ""),
            values.get("stream") == "watch",
        )
        wishes.append((-quality, place, wish))
    return tuple(wish for _, _, wish in sorted(wishes, key=lambda entry: entry[:2]))


_ANY = ("*/*", "application/*")


def choose(header: str, *, tables: bool = True) -> MediaType:
    """The first wish that can be met; its `type` is JSON or YAML. Raises a 406."""
    if not header:
        return MediaType(JSON)
    for wish in parse_accept(header):
        if wish.type not in (JSON, YAML, *_ANY):
            continue
        if wish.form:
            if not tables or wish.group != "meta.k8s.io" or wish.version not in ("v1", "v1beta1"):
                continue
            if wish.form not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
                continue
        chosen = YAML if wish.type == YAML else JSON
        return MediaType(chosen, wish.form, wish.group, wish.version, wish.stream)
    raise not_acceptable((JSON, YAML))


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def wants_indented(query: Query, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a person reads the answer: they say so, or use a tool that people use."""
    if "pretty" in query:
        return is_true(query, "pretty")
    return headers.get(b"user-agent", b"").startswith((b"curl", b"Wget", b"Mozilla/5.0"))
