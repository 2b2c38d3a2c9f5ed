"""How a body is written on the wire: what the client accepts, and what it sent (pure).

JSON is what everything here speaks; YAML and bodies in protobuf are converted at the edge, answers are never protobuf.
`as=Table` and `as=PartialObjectMetadata` are asked for by parameters of the media type
(source: Kubernetes API concepts "Resource representations" and "Receiving resources as Tables").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from .errors import ApiStatus, bad_request, not_acceptable, unsupported_media_type

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

# An alias may be expanded many times: this bounds what a small document can grow to.
_MAX_YAML_NODES = 1_000_000
_MAX_YAML_EVENTS = 150_000  # about two seconds of work; no real object comes near
_MAX_YAML_DEPTH = 200


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


def decode_body(body: bytes, content_type: str, accepted: Sequence[str] = (JSON, YAML)) -> Any:
    """The decoded body. Raises a 415 for other types and a 400 for what can't be parsed."""
    given = media_type_of(content_type) or JSON
    if given not in accepted:
        raise unsupported_media_type(content_type, accepted)
    return decode_yaml(body) if given == YAML else decode_json(body)


def decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise unreadable(body, f"couldn't get version/kind; json parse error: {error}") from None


def unreadable(body: bytes, why: str) -> ApiStatus:
    return bad_request(f"the object provided is unrecognized: {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    head = body[:30]
    return (head.decode("utf-8", "replace") if head.startswith(b"{") else head.hex()) + more


def decode_yaml(body: bytes) -> Any:
    import yaml  # not needed by any of our own parts

    try:
        _check_yaml_shape(yaml.parse(body, Loader=_yaml_loader()))
        document = yaml.load(body, Loader=_yaml_loader())
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"error converting YAML to JSON: {' '.join(str(error).split())}") from None
    _count_nodes(document, {}, set())
    return document


def _check_yaml_shape(events: Iterable[Any]) -> None:
    """Raises a 400 for what would exhaust the stack, which libyaml's composer does not guard, or hold up the server."""
    from yaml import CollectionEndEvent, CollectionStartEvent

    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > _MAX_YAML_DEPTH:
                raise bad_request(f"error converting YAML to JSON: yaml: exceeded max depth of {_MAX_YAML_DEPTH}")
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if count > _MAX_YAML_EVENTS:
            raise bad_request("error converting YAML to JSON: yaml: the document has too many nodes; send it as JSON")


@lru_cache(maxsize=1)
def _yaml_loader() -> Any:
    """A safe loader that leaves timestamps as text, as JSON has none."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    return Loader


def _count_nodes(node: Any, sizes: dict[int, int], open_nodes: set[int]) -> int:
    """How many nodes there are with aliases written out. Raises a 400 when there are too many, or endlessly many."""
    if not isinstance(node, dict | list):
        return 1
    identity = id(node)
    if identity in sizes:
        return sizes[identity]
    if identity in open_nodes:
        raise bad_request("error converting YAML to JSON: an anchor contains itself")
    open_nodes.add(identity)
    if isinstance(node, dict) and not all(isinstance(key, str) for key in node):
        raise bad_request("error converting YAML to JSON: a key is not a string")
    children = node.values() if isinstance(node, dict) else node
    size = 1 + sum(_count_nodes(child, sizes, open_nodes) for child in children)
    if size > _MAX_YAML_NODES:
        raise bad_request("error converting YAML to JSON: yaml: document contains excessive aliasing")
    open_nodes.discard(identity)
    sizes[identity] = size
    return size


def encode_yaml(body: bytes) -> bytes:
    import yaml

    text: str = yaml.safe_dump(msgspec.json.decode(body), default_flow_style=False, allow_unicode=True)
    return text.encode()
