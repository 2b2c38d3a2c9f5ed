"""The steps of one attempt of a write: from the request's change and the stored object to what will be stored.

The methods are synchronous and may run in the worker thread. Two of them make a draft, which admission may change, and
two make of it what will be stored. `registry` calls them, and admission between them.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from bridgehead.apiserver.bodies.nulls import decode_stored
from bridgehead.apiserver.errors import invalid
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.fieldmanagement.managers import Entries, same_but_times
from bridgehead.apiserver.resource import Change, Companion, JsonObject, Resource, Strategy, copied
from bridgehead.apiserver.resources.shared.generated_names import generate_name
from bridgehead.apiserver.resources.shared.metadata_validation import validate_metadata, validate_metadata_update
from bridgehead.objects.times import format_time
from bridgehead.storage import Companions, Create, Delete, Facts, Key, Record, Store

from . import metadata
from .deletion import is_finished
from .facts import facts_of
from .managed_fields import FIELD, Ownership
from .owner_references import with_unique_owners
from .request_checks import check_expected_version, check_url
from .write import Merge, Write

# The subresources that write only the status.
STATUS_VIEWS = ("status", "approval")
# The one subresource that changes spec and status together.
BINDING = "binding"


@dataclass(slots=True)
class Draft:
    """A changed object before the resource's hooks.

    `old` is the stored object without managedFields, `wanted` what the request makes of it, `new` is `wanted` with
    default values and without the changes that the request may not make. `before` and `after` are the managedFields.
    If admission may change `wanted`, it has default values and `after`, too.
    """

    old: JsonObject
    wanted: JsonObject
    new: JsonObject
    before: Entries
    after: Entries


@dataclass(slots=True)
class New:
    """A new object as it will be stored, and texts for the client. `is_named_here`: its name was generated."""

    obj: JsonObject
    facts: Facts
    also: Companions
    is_named_here: bool
    warnings: list[str]


@dataclass(slots=True)
class Changed:
    """A changed object as it will be stored, and texts for the client.

    `is_same`: only times of managers change. `is_finished`: its deletion is complete, so that it is removed.
    """

    obj: JsonObject
    facts: Facts
    also: Companions
    is_same: bool
    is_finished: bool
    warnings: list[str]


class WriteSteps:
    """The steps of a write. `find` returns a resource by its id; `clock` returns seconds since the epoch."""

    def __init__(
        self, store: Store, ownership: Ownership, find: Callable[[str], Resource], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._find = find
        self._clock = clock

    def now(self) -> str:
        return format_time(self._clock())

    # --- drafts

    def draft_new(self, write: Write, obj: JsonObject, managers: Entries | None) -> tuple[JsonObject, Entries]:
        """Return a new object with default values, and its managedFields: those of an apply, or else the writer's.

        Managers own what they sent and its defaults, but not what admission and the other hooks add.
        """
        resource = write.resource
        metadata.forget_server_fields(obj)
        resource.strategy.default(obj)
        if managers is None:
            managers = self._ownership.created(write, obj, obj["metadata"].get(FIELD), self.now())
        return {"kind": resource.stored.kind, "apiVersion": resource.stored.api_version} | obj, managers

    def draft_changed(self, write: Write, change: Change, current: Record, *, for_admission: bool) -> Draft:
        """Apply a change to the stored object. `for_admission`: plug-ins may change the result.

        Raises a 400, a 409, or a 500 for a malformed resourceVersion.
        """
        old = decode_stored(write.resource, current.value)
        wanted = change(old)
        sent = wanted.setdefault("metadata", {}).get(FIELD)
        # The hooks work without the managers of fields, which may be larger than the object.
        before: Entries = old["metadata"].pop(FIELD, None) or []
        new = _checked(write, wanted, old, current.revision)
        after = self._ownership.updated(write, old, new, before, sent, self.now())
        draft = Draft(old, wanted, new, before, after)
        return _completed(write, draft) if for_admission else draft

    def draft_applied(self, write: Write, merge: Merge, current: Record, *, for_admission: bool) -> Draft:
        """Apply a configuration to the stored object; otherwise as `draft_changed`."""
        old = decode_stored(write.resource, current.value)
        before: Entries = old["metadata"].pop(FIELD, None) or []
        wanted, after = merge(old, before)
        new = _checked(write, wanted, old, current.revision)
        draft = Draft(old, wanted, new, before, after)
        return _completed(write, draft) if for_admission else draft

    # --- results

    def new(
        self, write: Write, obj: JsonObject, managers: Entries, refused: AbstractSet[str], *, is_admitted: bool
    ) -> New:
        """Apply the resource's hooks to a new object. `is_admitted`: plug-ins may have changed it. Raises a 422.

        `refused` are the claims that other writes took before.
        """
        resource = write.resource
        base = "" if obj["metadata"].get("name") else obj["metadata"].get("generateName", "")
        # A retry begins with the request's object, without the choices of the previous attempt.
        candidate = copied(obj) if base or _chooses(resource.strategy) else obj
        if base:
            candidate["metadata"]["name"] = generate_name(base)
        if is_admitted:
            resource.strategy.default(candidate)
        warnings = self._prepare_create(resource, candidate, refused)
        if managers:
            candidate["metadata"][FIELD] = managers
        warnings += resource.strategy.warnings(candidate)
        also = () if write.dry_run else self.companions(resource, candidate, None)
        return New(candidate, facts_of(resource, candidate), also, bool(base), warnings)

    def changed(self, write: Write, draft: Draft, admitted: JsonObject | None, refused: AbstractSet[str]) -> Changed:
        """Apply the resource's hooks. `admitted` is what plug-ins made of `draft.wanted`; None: they did not change it.

        Raises a 422.
        """
        resource, old = write.resource, draft.old
        new = draft.new if admitted is None else _permitted(write, admitted, old)
        if write.attributes is not None:
            new = with_unique_owners(new, write.attributes.warnings, is_admitted=True)
        warnings = self._prepare_update(write, new, old, refused)
        is_same = new == old and same_but_times(draft.before, draft.after)
        if draft.after:
            new["metadata"][FIELD] = draft.after
        # Writes of a status or of another part do not warn of the rest, as the strategies of Kubernetes.
        if not write.subresource:
            warnings += resource.strategy.update_warnings(new, old)
        facts, ends = facts_of(resource, new), is_finished(new)
        also = self.companions(resource, None, new) if ends else self.companions(resource, new, old)
        return Changed(new, facts, also, is_same, ends, warnings)

    def companions(self, resource: Resource, new: JsonObject | None, old: JsonObject | None) -> Companions:
        """Return the writes by which the companions of `old` become those of `new`."""
        strategy = resource.strategy
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
        strategy = resource.strategy
        prepared = strategy.prepare_create(obj)
        name = obj["metadata"].get("name", "")
        _check(resource, name, strategy.allocate(obj, None, self._is_taken(refused)))
        root = Field(obj)
        validate_metadata(root, resource)
        strategy.validate(root)
        strategy.validate_create(root)
        return _check(resource, name, prepared + root.errors if prepared else root.errors)

    def _prepare_update(self, write: Write, new: JsonObject, old: JsonObject, refused: AbstractSet[str]) -> list[str]:
        """Apply the hooks for an update to `new`, which has its default values; return warnings. Raises a 422."""
        resource, subresource, strategy = write.resource, write.subresource, write.resource.strategy
        strategy.prepare_update(new, old, subresource)
        _check(resource, old["metadata"]["name"], strategy.allocate(new, old, self._is_taken(refused)))
        root = Field(new)
        validate_metadata(root, resource)
        validate_metadata_update(root, old)
        if strategy.validates_status_writes or subresource not in STATUS_VIEWS:
            strategy.validate(root)
        strategy.validate_update(root, old, subresource)
        warnings = _check(resource, old["metadata"]["name"], root.errors)
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


def _completed(write: Write, draft: Draft) -> Draft:
    """Return a draft whose `wanted` is a copy with default values and managers, for admission."""
    stored = write.resource.stored
    wanted = {**draft.wanted, "apiVersion": stored.api_version, "kind": stored.kind}
    meta = {key: value for key, value in wanted["metadata"].items() if key != FIELD}
    if stored.namespaced:
        meta["namespace"] = draft.old["metadata"]["namespace"]
    wanted = copied({**wanted, "metadata": meta})
    stored.strategy.default(wanted)
    draft.wanted = with_managers(wanted, draft.after)
    return draft


def _checked(write: Write, wanted: JsonObject, old: JsonObject, revision: int) -> JsonObject:
    """Return `Draft.new`. Raises a 400, a 409 or a 500 for names or a version that are not those of `old`."""
    meta = wanted.setdefault("metadata", {})
    check_url(write, meta)
    check_expected_version(write, meta, revision)
    return _permitted(write, wanted, old)


def _permitted(write: Write, wanted: JsonObject, old: JsonObject) -> JsonObject:
    """Return a copy of `wanted` with default values, and without the changes that this write may not make."""
    resource = write.resource
    new = dict(wanted)
    if write.subresource in STATUS_VIEWS:
        new = _with_status_only(resource, wanted, old)
    elif "status" in resource.subresources and write.subresource != BINDING:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    new["metadata"] = dict(new["metadata"])
    metadata.carry_over(new, old)
    new["apiVersion"], new["kind"] = resource.stored.api_version, resource.stored.kind
    # Hooks change objects in place, and parts of `new` may be shared with `old`.
    permitted: JsonObject = copied(new)
    resource.strategy.default(permitted)
    return permitted


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
