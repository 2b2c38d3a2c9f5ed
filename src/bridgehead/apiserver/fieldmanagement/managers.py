"""managedFields: the entries of an object's managers, and what a write makes of them.

Entries are the dicts of `metadata.managedFields`; only their `fieldsV1` is looked at as a set. An entry belongs to a
manager by its name, operation, subresource and, for updates, API version.

Pure: no I/O, no clock, no randomness.
Source: apimachinery/pkg/util/managedfields/internal: managedfields.go, managedfieldsupdater.go, capmanagers.go,
skipnonapplied.go; structured-merge-diff/merge/update.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridgehead.apiserver.shapes import Shape

from .comparing import Comparison, compare
from .fieldset import EMPTY, FieldSet, contains, difference, in_order, parse_fields, union, without
from .path_steps import field_step

Entry = dict[str, Any]
Entries = list[Entry]

APPLY, UPDATE = "Apply", "Update"

MAX_UPDATERS = 10
ANCIENT_CHANGES = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"
MAX_NAME_BYTES = 128

# A reset: the client asks for an object without managedFields.
_RESETS: tuple[Entries, ...] = ([], [{}])


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource, for the managers of its fields.

    `root` is the type of its objects, `reset` the paths by subresource ("" is the resource itself) that a write to it
    cannot change. `api_versions` are those in which it is served; (): only `api_version`. Their fields are taken for
    the same ones. Entries of other API versions are dropped.
    """

    root: Shape
    api_version: str
    name: str
    reset: dict[str, FieldSet] = field(default_factory=dict)
    api_versions: frozenset[str] = frozenset()

    def knows(self, entry: Entry) -> bool:
        """Whether an entry of managedFields is about this resource."""
        version = entry.get("apiVersion")
        return version == self.api_version or version in self.api_versions


@dataclass(frozen=True, slots=True)
class Writer:
    """The manager that a write is made for, the operation, and the subresource ("": the resource itself)."""

    manager: str
    operation: str = UPDATE
    subresource: str = ""


# The API server's own writes.
SERVER = Writer("kube-apiserver")

Identity = tuple[str, str, str, str]


def identity_of(entry: Entry) -> Identity:
    """Return the key of the entry's manager: name, operation, API version, subresource."""
    operation = entry.get("operation", "")
    version = "" if operation == APPLY else entry.get("apiVersion", "")
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def identity(writer: Writer, kind: Kind) -> Identity:
    version = "" if writer.operation == APPLY else kind.api_version
    return writer.manager, writer.operation, version, writer.subresource


def make_entry(writer: Writer, kind: Kind, fields: FieldSet, time: str) -> Entry:
    """Return an entry with its keys in Kubernetes' order. `fields` is in order; `time` is RFC 3339, "" for none."""
    entry: Entry = {"manager": writer.manager, "operation": writer.operation, "apiVersion": kind.api_version}
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if writer.subresource:
        entry["subresource"] = writer.subresource
    return entry


def after_create(kind: Kind, new: dict[str, Any], sent: Entries | None, writer: Writer, time: str) -> Entries:
    """Return the managedFields of a new object. `sent` is what the client sent there."""
    base = base_entries(sent, None) if sent else []
    changed = without(compare({}, new, kind.root).changed, kind.reset.get(writer.subresource, EMPTY))
    if not base:
        return [make_entry(writer, kind, changed, time)] if changed else []
    return _after(kind, base, Comparison(changed, EMPTY), writer, time)


def after_update(
    kind: Kind,
    old: dict[str, Any],
    new: dict[str, Any],
    entries: Entries | None,
    sent: Entries | None,
    writer: Writer,
    time: str,
) -> Entries:
    """Return the managedFields after an update or a patch.

    `entries` are those of the stored object, `sent` those in the client's object. Objects that nobody tracks stay so.
    """
    base = entries or []
    if sent is not None and sent != entries and not writer.subresource:
        base = base_entries(sent, entries)
    if not base:
        return []
    difference_ = compare(old, new, kind.root)
    if not difference_.changed and not difference_.removed:
        return base
    reset = kind.reset.get(writer.subresource, EMPTY)
    seen = Comparison(without(difference_.changed, reset), without(difference_.removed, reset))
    return _after(kind, base, seen, writer, time)


def base_entries(sent: Entries, entries: Entries | None) -> Entries:
    """Return the entries that an update starts from: those that the client sent, if they are usable."""
    if sent in _RESETS:
        return []
    return parse_entries(sent) or entries or []


def parse_entries(sent: Entries) -> Entries:
    """Return a client's entries with their sets in the form of this package; none if one entry is unusable."""
    parsed: dict[Identity, Entry] = {}
    for entry in sent:
        if entry.get("operation") not in (APPLY, UPDATE) or not entry.get("apiVersion"):
            return []
        if entry.get("fieldsType") != "FieldsV1":
            return []
        try:
            fields = parse_fields(entry.get("fieldsV1") or {})
        except (ValueError, RecursionError):
            return []
        parsed[identity_of(entry)] = {**entry, "fieldsV1": in_order(fields)}
    return list(parsed.values())


def _after(kind: Kind, base: Entries, seen: Comparison, writer: Writer, time: str) -> Entries:
    """Return the entries after `writer` has changed and removed the paths in `seen`."""
    mine = identity(writer, kind)
    own: FieldSet = EMPTY
    kept: Entries = []
    for entry in base:
        fields = entry.get("fieldsV1") or EMPTY
        if not kind.knows(entry):
            continue
        if seen.changed and identity_of(entry) == mine:
            own = difference(fields, seen.removed)
            continue
        left = difference(difference(fields, seen.changed), seen.removed)
        if left:
            kept.append(entry if left is fields else {**entry, "fieldsV1": left})
    if seen.changed:
        # A writer that changes values again owns their fields already.
        fields = own if contains(own, seen.changed) else in_order(union(own, seen.changed))
        kept.append(make_entry(writer, kind, fields, time))
    return in_entry_order(cap(kept))


def losing(kind: Kind, entries: Iterable[Entry], seen: Comparison) -> Iterable[tuple[Entry, FieldSet]]:
    """Yield entries with what is left of their sets after another manager has changed and removed paths."""
    for entry in entries:
        if kind.knows(entry):
            fields = entry.get("fieldsV1") or EMPTY
            yield entry, difference(difference(fields, seen.changed), seen.removed)


def in_entry_order(entries: Entries) -> Entries:
    """Return the entries sorted as the API shows them: appliers first, then by time."""
    return sorted(entries, key=_entry_order) if len(entries) > 1 else entries


def _entry_order(entry: Entry) -> tuple[str, ...]:
    return (
        entry.get("operation", ""),
        entry.get("time") or "",
        entry.get("manager", ""),
        entry.get("apiVersion", ""),
        entry.get("subresource", ""),
    )


def cap(entries: Entries) -> Entries:
    """Merge the oldest update entries into one, so that at most `MAX_UPDATERS` update entries are left."""
    surplus = sum(entry.get("operation") == UPDATE for entry in entries) - MAX_UPDATERS
    if surplus <= 0:
        return entries
    updaters = sorted(
        (entry for entry in entries if entry.get("operation") == UPDATE),
        key=lambda entry: (entry.get("time") or "", identity_of(entry)),
    )
    oldest, rest = updaters[: surplus + 1], updaters[surplus + 1 :]
    merged: FieldSet = EMPTY
    for entry in oldest:
        merged = union(entry.get("fieldsV1") or EMPTY, merged)
    ancient = {**oldest[-1], "manager": ANCIENT_CHANGES, "fieldsV1": in_order(merged)}
    ancient.pop("subresource", None)
    return [*(entry for entry in entries if entry.get("operation") != UPDATE), ancient, *rest]


def same_but_times(one: Sequence[Entry], other: Sequence[Entry]) -> bool:
    """Whether two lists of entries differ at most in their times. Such a change alone is not worth a write."""
    return len(one) == len(other) and all(
        mine is theirs or {**mine, "time": None} == {**theirs, "time": None}
        for mine, theirs in zip(one, other, strict=True)
    )


def reset_paths(*paths: str) -> FieldSet:
    """Return the set of paths such as `status` or `metadata.labels`."""
    fields: FieldSet = EMPTY
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path.split(".")):
            node = {field_step(name): node}
        fields = union(fields, node)
    return fields


def manager_of(user_agent: str) -> str:
    """Return the manager's name for a client that names none: its program, as in `kubectl/v1.36.0 (linux/amd64)`."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore") or "unknown"
