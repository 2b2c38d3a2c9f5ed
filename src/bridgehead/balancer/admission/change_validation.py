"""Judgment of one change of the configuration: whether the objects would still make a valid configuration.

Pure: no I/O, no clock, no randomness. Source: MetalLB's webhooks. They tolerate references to objects that are created
later (BFD profiles, communities), because the order of objects in a manifest must not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from bridgehead.balancer.configuration import ConfigurationObjects, compile_configuration
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.objects import metallb, openelb
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey

Json = dict[str, Any]

# Field of ConfigurationObjects, by group and plural.
_FIELDS: dict[tuple[str, str], tuple[str, Kind[Any]]] = {
    (kind.group, kind.plural): (field, kind)
    for field, kind in (
        ("pools", metallb.IP_ADDRESS_POOLS),
        ("layer2_advertisements", metallb.L2_ADVERTISEMENTS),
        ("bgp_advertisements", metallb.BGP_ADVERTISEMENTS),
        ("peers", metallb.BGP_PEERS),
        ("bfd_profiles", metallb.BFD_PROFILES),
        ("communities", metallb.COMMUNITIES),
        ("eips", openelb.EIPS),
        ("bgp_confs", openelb.BGP_CONFS),
        ("openelb_peers", openelb.BGP_PEERS),
    )
}

_NO_CONTENT = ("apiVersion", "kind", "metadata", "status")


@dataclass(frozen=True)
class _Verdict:
    """The reason why objects make no configuration, "" if they do, and the warnings about single objects."""

    error: str
    warnings: frozenset[tuple[ObjectKey, str]] = frozenset()


def judge_change(
    objects: ConfigurationObjects, group: str, plural: str, operation: str, old: Json | None, new: Json | None
) -> str:
    """Return the reason to refuse the change, "" to allow it.

    A change is refused for what it breaks, not for what was broken before, so that a configuration can be repaired
    object by object. A change that concerns no configuration is never refused: changes of metadata or the status alone,
    and those of an object that is being deleted, whose finalizers could not go otherwise. `operation`: CREATE, UPDATE
    or DELETE; `old` and `new`: the objects as JSON.
    """
    if (group, plural) not in _FIELDS or _is_being_deleted(new or old) or _has_same_content(old, new):
        return ""
    field, kind = _FIELDS[group, plural]
    changed = _decode(kind, new if new is not None else old)
    if changed is None:
        return ""  # the schema refuses it
    if operation == "DELETE":
        return _deletion_refusal(objects, changed)
    others = tuple(obj for obj in getattr(objects, field) if obj.key != changed.key)
    change: dict[str, Any] = {field: (*others, changed)}
    before = _judge(_without_references(objects))
    after = _judge(_without_references(replace(objects, **change)))
    if after.error and after.error != before.error:
        return after.error
    own = sorted(text for key, text in after.warnings - before.warnings if key == changed.key)
    return own[0] if own else ""


def _is_being_deleted(document: Json | None) -> bool:
    metadata = (document or {}).get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _has_same_content(old: Json | None, new: Json | None) -> bool:
    if old is None or new is None:
        return False
    before, after = ({k: v for k, v in one.items() if k not in _NO_CONTENT} for one in (old, new))
    return before == after


def _decode(kind: Kind[Any], document: Json | None) -> Any:
    try:
        return msgspec.convert(document, kind.type)
    except msgspec.ValidationError:
        return None


def _deletion_refusal(objects: ConfigurationObjects, deleted: Object) -> str:
    if isinstance(deleted, metallb.BFDProfile):
        name = deleted.metadata.name
        users = sorted(peer.metadata.name for peer in objects.peers if peer.spec.bfd_profile == name)
        if users:
            return f"Failed to delete BFDProfile {name}, used by {users[0]}"
    return ""


def _judge(objects: ConfigurationObjects) -> _Verdict:
    try:
        compiled = compile_configuration(objects)
    except ConfigurationInvalid as error:
        return _Verdict(str(error))
    warnings = ((ObjectKey(r.about.namespace, r.about.name), r.message) for r in compiled.rejections)
    return _Verdict("", frozenset(warnings))


def _without_references(objects: ConfigurationObjects) -> ConfigurationObjects:
    """Drop references to BFD profiles, communities and peers that do not exist yet."""
    profiles = {profile.metadata.name for profile in objects.bfd_profiles}
    names = {peer.metadata.name for peer in objects.peers}
    aliases = {alias.name for obj in objects.communities for alias in obj.spec.communities}
    peers = tuple(
        peer
        if peer.spec.bfd_profile in profiles
        else msgspec.structs.replace(peer, spec=msgspec.structs.replace(peer.spec, bfd_profile=""))
        for peer in objects.peers
    )
    advertisements = tuple(
        msgspec.structs.replace(
            obj,
            spec=msgspec.structs.replace(
                obj.spec,
                communities=tuple(text for text in obj.spec.communities if text in aliases or ":" in text),
                peers=tuple(name for name in obj.spec.peers if name in names),
            ),
        )
        for obj in objects.bgp_advertisements
    )
    return replace(objects, peers=peers, bgp_advertisements=advertisements)
