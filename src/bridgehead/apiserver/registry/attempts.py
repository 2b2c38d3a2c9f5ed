"""One attempt of a write: from the request's change and the stored object to what will be stored.

The methods are synchronous and may run in the worker thread. Admission runs between them (`registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from bridgehead.apiserver.bodies.nulls import decode_stored
from bridgehead.apiserver.errors import invalid
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.fieldmanagement.managers import Entries, Writer, same_but_times
from bridgehead.apiserver.resource import Change, Companion, JsonObject, Resource, Strategy, copied, errors_of
from bridgehead.apiserver.resources.shared.generated_names import generate_name
from bridgehead.apiserver.resources.shared.metadata_validation import validate_metadata, validate_metadata_update
from bridgehead.objects.times import format_time
from bridgehead.storage import Companions, Create, Delete, Facts, Key, Record, Store

from . import metadata
from .ownership import FIELD, Ownership
from .request_checks import check_expected_version, check_url

# The subresources that write only the status.
STATUS_VIEWS = ("status", "approval")
# The one subresource that changes spec and status together.
BINDING = "binding"


@dataclass(slots=True)
class Draft:
    """A changed object before the resource's hooks.

    `old` is the stored object without managedFields, `wanted` what the request makes of it, `new` is `wanted` with
    default values and without the changes that the request may not make. `before` and `after` are the managedFields.
    """

    old: JsonObject
    wanted: JsonObject
    new: JsonObject
    before: Entries
    after: Entries


@dataclass(slots=True)
class New:
    """A new object as it will be stored, and texts for the client that sent it."""

    obj: JsonObject
    facts: Facts
    warnings: list[str]


@dataclass(slots=True)
class Changed:
    """A changed object as it will be stored, and texts for the client. `is_same`: only times of managers change."""

    obj: JsonObject
    facts: Facts
    also: Companions
    is_same: bool
    warnings: list[str]


class Attempts:
    """Attempts of writes. `find` returns a resource by its id; `clock` returns seconds since the epoch."""

    def __init__(
        self, store: Store, ownership: Ownership, find: Callable[[str], Resource], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._find = find
        self._clock = clock

    def now(self) -> str:
        return format_time(self._clock())

    def default_new(self, resource: Resource, obj: JsonObject, writer: Writer) -> Entries:
        """Set default values in a new object; return its managedFields.

        Managers own what they sent and its defaults, but not what admission and the other hooks add.
        """
        metadata.forget_server_fields(obj)
        resource.stored.strategy.default(obj)
        return self._ownership.created(resource, obj, obj["metadata"].get(FIELD), writer, self.now())

    def candidate(
        self,
        resource: Resource,
        obj: JsonObject,
        base: str,
        entries: Entries,
        refused: AbstractSet[str],
        *,
        is_completed: bool,
    ) -> New:
        """Return what one attempt of a create stores. Raises a 422."""
        # A retry begins with the request's object, without the choices of the previous attempt.
        candidate = copied(obj) if base or _chooses(resource.stored.strategy) else obj
        if base:
            candidate["metadata"]["name"] = generate_name(base)
        if is_completed:
            resource.stored.strategy.default(candidate)
        warnings = self._prepare_create(resource, candidate, refused)
        if entries:
            candidate["metadata"][FIELD] = entries
        warnings += resource.strategy.warnings(candidate)
        return New(candidate, self.facts(resource, candidate), warnings)

    def draft(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        current: Record,
        change: Change,
        subresource: str,
        writer: Writer | None,
    ) -> Draft:
        """Apply a change to the stored object. Raises a 400, a 409, or a 500 for a malformed resourceVersion."""
        old = decode_stored(resource, current.value)
        wanted = change(old)
        meta = wanted.setdefault("metadata", {})
        check_url(resource, namespace, name, meta)
        check_expected_version(resource, name, meta, current.revision)
        sent = meta.get(FIELD)
        # The hooks work without the managers of fields, which may be larger than the object.
        before: Entries = old["metadata"].pop(FIELD, None) or []
        new = self.default_changed(resource, wanted, old, subresource)
        after = self._ownership.updated(resource, old, new, before, sent, writer, self.now())
        return Draft(old, wanted, new, before, after)

    def completed(self, resource: Resource, draft: Draft) -> JsonObject:
        """Return a copy of `draft.wanted` with default values and managers, for admission."""
        wanted = {**draft.wanted, "apiVersion": resource.stored.api_version, "kind": resource.stored.kind}
        meta = {key: value for key, value in wanted["metadata"].items() if key != FIELD}
        if resource.namespaced:
            meta["namespace"] = draft.old["metadata"]["namespace"]
        wanted = copied({**wanted, "metadata": meta})
        resource.stored.strategy.default(wanted)
        return with_managers(wanted, draft.after)

    def changed(self, resource: Resource, draft: Draft, subresource: str, refused: AbstractSet[str]) -> Changed:
        """Apply the resource's hooks to `draft.new`. Raises a 422."""
        new, old = draft.new, draft.old
        warnings = self._prepare_update(resource, new, old, subresource, refused)
        is_same = new == old and same_but_times(draft.before, draft.after)
        if draft.after:
            new["metadata"][FIELD] = draft.after
        # Writes of a status or of another part do not warn of the rest, as the strategies of Kubernetes.
        if not subresource:
            warnings += resource.strategy.update_warnings(new, old)
        return Changed(new, self.facts(resource, new), self.companions(resource, new, old), is_same, warnings)

    def default_changed(self, resource: Resource, new: JsonObject, old: JsonObject, subresource: str) -> JsonObject:
        """Return a copy of `new` with default values, and without the changes that this request may not make."""
        if subresource in STATUS_VIEWS:
            new = _with_status_only(resource, new, old)
        else:
            new = dict(new)
            if "status" in resource.subresources and subresource != BINDING:
                new.pop("status", None)
                if "status" in old:
                    new["status"] = old["status"]
        new["metadata"] = dict(new["metadata"])
        metadata.carry_over(new, old)
        new["apiVersion"], new["kind"] = resource.stored.api_version, resource.stored.kind
        # Hooks change objects in place, and parts of `new` may be shared with `old`.
        new = copied(new)
        resource.stored.strategy.default(new)
        return new

    def facts(self, resource: Resource, obj: JsonObject) -> Facts:
        meta = obj["metadata"]
        fields = {"metadata.name": meta["name"]}
        if resource.namespaced:
            fields["metadata.namespace"] = meta["namespace"]
        for field, read in resource.stored.selectable.items():
            fields[field] = read(obj)
        return Facts(meta.get("labels") or {}, fields, resource.stored.strategy.claims(obj))

    def companions(self, resource: Resource, new: JsonObject | None, old: JsonObject | None) -> Companions:
        """Return the writes by which the companions of `old` become those of `new`."""
        strategy = resource.stored.strategy
        if type(strategy).companions is Strategy.companions:
            return ()
        wanted = () if new is None else strategy.companions(new)
        held = () if old is None else strategy.companions(old)
        before = {Key(one.resource, "", one.name) for one in held}
        after = {Key(one.resource, "", one.name): one for one in wanted}
        writes: list[Create | Delete] = [Delete(key, None) for key in before if key not in after]
        writes += [self._companion(key, one) for key, one in after.items() if key not in before]
        return tuple(writes)

    def _companion(self, key: Key, companion: Companion) -> Create:
        obj, now = companion.make(), self.now()
        metadata.identify(obj, now)
        obj["metadata"][FIELD] = self._ownership.of_companion(self._find(key.resource), obj, now)
        return Create(key, obj, Facts(companion.labels, {"metadata.name": key.name}), claim=companion.claim)

    def _prepare_create(self, resource: Resource, obj: JsonObject, refused: AbstractSet[str]) -> list[str]:
        """Apply the hooks for a create to `obj`, which has its default values; return warnings. Raises a 422."""
        strategy = resource.stored.strategy
        prepared = strategy.prepare_create(obj)
        name = obj["metadata"].get("name", "")
        _check(resource, name, strategy.allocate(obj, None, self._is_taken(refused)))
        errors = validate_metadata(obj, resource)
        errors += errors_of(strategy.validate, obj) + errors_of(strategy.validate_create, obj)
        return _check(resource, name, prepared + errors if prepared else errors)

    def _prepare_update(
        self, resource: Resource, new: JsonObject, old: JsonObject, subresource: str, refused: AbstractSet[str]
    ) -> list[str]:
        """Apply the hooks for an update to `new`, which has its default values; return warnings. Raises a 422."""
        strategy = resource.stored.strategy
        strategy.prepare_update(new, old, subresource)
        _check(resource, old["metadata"]["name"], strategy.allocate(new, old, self._is_taken(refused)))
        errors = validate_metadata(new, resource)
        errors += validate_metadata_update(new, old, resource)
        if strategy.validates_status_writes or subresource not in STATUS_VIEWS:
            errors += errors_of(strategy.validate, new)
        errors += errors_of(strategy.validate_update, new, old, subresource)
        warnings = _check(resource, old["metadata"]["name"], errors)
        if subresource != BINDING and subresource not in STATUS_VIEWS:
            metadata.count_generation(new, old, resource)
        return warnings

    def _is_taken(self, refused: AbstractSet[str]) -> Callable[[str], bool]:
        """Return `Store.is_claimed`, which also covers what refused earlier attempts."""
        if not refused:
            return self._store.is_claimed
        return lambda claim: claim in refused or self._store.is_claimed(claim)


def _check(resource: Resource, name: str, found: list[FieldError]) -> list[str]:
    """Return the texts of warnings. Raises a 422 if there is an error."""
    if not found:
        return []
    if errors := [one for one in found if not one.is_warning]:
        raise invalid(resource.stored.group, resource.kind, name, errors)
    return [f"{one.field}: {one.message}" for one in found]


def _chooses(strategy: Strategy) -> bool:
    """Whether a create may have to choose again, because another write has taken what it chose."""
    return type(strategy).allocate is not Strategy.allocate or type(strategy).claims is not Strategy.claims


def _with_status_only(resource: Resource, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return `old` with the status of `new`, and with those metadata that controllers may write with it."""
    meta, before = dict(new["metadata"]), old["metadata"]
    for field in resource.stored.kept_by_status:
        if field in before:
            meta[field] = before[field]
        else:
            meta.pop(field, None)
    kept = {**old, "metadata": meta}
    kept.pop("status", None)
    if "status" in new:
        kept["status"] = new["status"]
    return kept


def with_managers(obj: JsonObject, entries: Entries) -> JsonObject:
    """Return the object with these managedFields."""
    return {**obj, "metadata": {**obj["metadata"], FIELD: entries}} if entries else obj
