"""Server-side apply: the merged object, its managedFields, or the conflicts.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/merge/update.go (Apply), apimachinery/pkg/util/managedfields/internal: structuredmerge.go,
lastappliedmanager.go, lastappliedupdater.go, conflict.go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bridgehead.apiserver.shapes import Shape

from .applied_configuration import check, field_set
from .comparing import Comparison, compare
from .errors import BadConfiguration, Conflict, Conflicts
from .fieldset import EMPTY, FieldSet, difference, has, in_order, intersection, paths, union, without
from .last_applied import KUBECTL, allowed_conflicts, with_last_applied
from .managers import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    Entries,
    Entry,
    Kind,
    Writer,
    identity,
    identity_of,
    in_entry_order,
    losing,
    make_entry,
    reset_paths,
)
from .merging import merge
from .pruning import prune

_BOOKKEEPING = reset_paths("metadata")


class Applied(NamedTuple):
    """An apply's result: the object without managedFields, and its managedFields."""

    obj: dict[str, Any]
    entries: Entries


def apply(
    kind: Kind,
    live: dict[str, Any],
    entries: Entries,
    configuration: dict[str, Any],
    writer: Writer,
    time: str,
    *,
    force: bool,
) -> Applied:
    """Apply `configuration` to `live`, which is {} for a new object and has no managedFields itself.

    `entries` are the managedFields of the live object. Raises `BadConfiguration`, and `Conflicts` without `force`.
    """
    check_configuration(configuration, kind.root)
    if live and not entries:
        entries = _before_first_apply(kind, live, writer, time)
    result = _merge_and_prune(kind, live, entries, configuration, writer, time, force=force)
    if isinstance(result, Conflicts) and writer.manager == KUBECTL:
        # kubectl's own changes by client-side apply are no conflicts.
        allowed = allowed_conflicts(live, kind)
        left = [conflict for conflict in result.conflicts if not has(allowed, conflict.path)]
        if left:
            raise Conflicts(left)
        result = _merge_and_prune(kind, live, entries, configuration, writer, time, force=True)
    if isinstance(result, Conflicts):
        raise result
    if writer.manager == KUBECTL:
        return Applied(with_last_applied(result.obj, configuration), result.entries)
    return result


def check_configuration(configuration: dict[str, Any], root: Shape) -> None:
    """Raise `BadConfiguration`, with the name of the object, if the configuration does not fit the type."""
    try:
        check(configuration, root)
    except BadConfiguration as error:
        raise BadConfiguration(f"failed to create typed patch object ({_subject(configuration)}): {error}") from None


def _subject(configuration: dict[str, Any]) -> str:
    """Return what a configuration is for: `default/web; apps/v1, Kind=Deployment`."""
    meta = configuration.get("metadata")
    names = meta if isinstance(meta, dict) else {}
    version = configuration.get("apiVersion") or ""
    group_version = version if "/" in version else f"/{version}"
    where = f"{names.get('namespace') or ''}/{names.get('name') or ''}"
    return f"{where}; {group_version}, Kind={configuration.get('kind')}"


def _before_first_apply(kind: Kind, live: dict[str, Any], writer: Writer, time: str) -> Entries:
    """Return the entry for the fields of an object that nobody has tracked so far."""
    before = Writer(BEFORE_FIRST_APPLY, UPDATE, writer.subresource)
    fields = without(compare({}, live, kind.root).changed, kind.reset.get(writer.subresource, EMPTY))
    return [make_entry(before, kind, fields, time)] if fields else []


def _merge_and_prune(
    kind: Kind,
    live: dict[str, Any],
    entries: Entries,
    configuration: dict[str, Any],
    writer: Writer,
    time: str,
    *,
    force: bool,
) -> Applied | Conflicts:
    """Return the result, or without `force` the conflicts."""
    reset = kind.reset.get(writer.subresource, EMPTY)
    mine = identity(writer, kind)
    current = [entry for entry in entries if kind.knows(entry)]
    previous = next((entry for entry in current if identity_of(entry) == mine), None)
    others = [entry for entry in current if entry is not previous]

    owned = difference(without(field_set(configuration, kind.root), reset), _BOOKKEEPING)
    last = EMPTY if previous is None else previous.get("fieldsV1") or EMPTY
    merged = merge(live, configuration, kind.root)
    new = prune(merged, last, _union(owned, others), kind.root)

    compared = compare(live, new, kind.root)
    seen = Comparison(without(compared.changed, reset), without(compared.removed, reset))
    if not force:
        conflicts = _conflicts(others, seen.changed)
        if conflicts:
            return Conflicts(conflicts)
    kept = [
        entry if fields is entry.get("fieldsV1") else {**entry, "fieldsV1": fields}
        for entry, fields in losing(kind, others, seen)
        if fields
    ]
    if owned:
        since = time if new != live else "" if previous is None else previous.get("time", "")
        kept.append(make_entry(writer, kind, in_order(owned), since))
    return Applied(new, in_entry_order(kept))


def _union(fields: FieldSet, entries: Entries) -> FieldSet:
    for entry in entries:
        fields = union(fields, entry.get("fieldsV1") or EMPTY)
    return fields


def _conflicts(others: Entries, changed: FieldSet) -> list[Conflict]:
    """Return the changed paths that other managers own, by manager."""
    return [
        Conflict(describe(entry), path)
        for entry in sorted(others, key=identity_of)
        for path in paths(intersection(entry.get("fieldsV1") or EMPTY, changed))
    ]


def describe(entry: Entry) -> str:
    """Return a manager's name for messages."""
    text = f'"{entry.get("manager", "")}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    return text if entry.get("operation") == APPLY else f"{text} using {entry.get('apiVersion')}"
