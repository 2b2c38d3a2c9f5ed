"""The entry of one resource in the API server's table, and the hooks with which a resource adds its own rules.

A resource is a `Resource` in `resources.build_table`. Names and columns are enough for a plain one; defaults,
validation and allocation are the hooks of a `Strategy`. Hooks get objects as decoded JSON whose fields and types agree
with the schema, without nulls. Recipe: docs/recipes/add-a-kind.md.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from .field import Field, FieldError

if TYPE_CHECKING:
    from bridgehead.storage import Record, Store

JsonObject = dict[str, Any]

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode

# All metadata that clients write.
CLIENT_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")

# Returns the changed object; the result may share parts with the argument. Called again after a lost race.
Change = Callable[[JsonObject], JsonObject]


def copied(value: Any) -> Any:
    """Return a deep copy of decoded JSON. Encoding and decoding it is faster than walking through it in Python."""
    return _decode(_encode(value))


# The value of one cell of a table.
Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`. Priority 0 is always shown, 1 only with `-o wide`.

    `cell` returns the value for an object and the current time (seconds since the epoch, for ages).
    """

    name: str
    cell: Callable[[JsonObject, float], Cell]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(slots=True)
class Companion:
    """An object of another resource, without namespace, that exists because of its owner.

    It is created and removed in the commit of its owner. `claim` is the owner's claim that an object of this name
    contradicts. `labels` are facts for selectors; `make` returns the object without uid, creation time and
    managedFields. All companions of a resource have the same fields.
    """

    resource: str
    name: str
    claim: str
    labels: Mapping[str, str]
    make: Callable[[], JsonObject]


class Strategy:
    """The hooks of one resource. This base class is for plain resources: no hook does anything.

    Order for a create: `default`, `prepare_create`, `allocate`, `validate`, `validate_create`, then the store (with
    `claims`).
    For an update: `default`, `prepare_update`, `allocate`, `validate`, `validate_update`, then the store.
    The managers of fields own what is there after `default`. This hook may be called again for what admission adds.
    Hooks change the object in place; validators only add errors and warnings to its fields.
    """

    def default(self, obj: JsonObject) -> None:
        """Set Kubernetes' default values for fields that are left out."""

    def default_on_read(self, obj: JsonObject) -> None:
        """Complete a stored object with default values that an older server did not write. Called after `default`."""

    def prepare_create(self, obj: JsonObject) -> list[FieldError] | None:
        """Drop fields that a creator may not set (such as `status`) and set initial values. May return warnings."""

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        """Copy from `old` what this request may not change: `status` for subresource "", `spec` for "status"."""

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        """Change an object whose deletion begins; it stays stored if it has a finalizer. `now` is RFC 3339."""

    def allocate(self, obj: JsonObject, old: JsonObject | None, is_claimed: Callable[[str], bool]) -> list[FieldError]:
        """Choose addresses and ports that the request left open; return errors for requested ones that are taken.

        Errors end the request before it is validated. If another writer takes a chosen claim first, the hook is called
        again with a fresh copy of the prepared object, so that an earlier choice does not look like a request.
        `is_claimed` covers all stored objects, `old` included, and what refused earlier attempts. Raises `ApiStatus`.
        """
        return []

    def claims(self, obj: JsonObject) -> frozenset[str]:
        """Return the names that `obj` holds exclusively; see `storage.Facts`."""
        return frozenset()

    def companions(self, obj: JsonObject) -> Sequence[Companion]:
        """Return the objects that are created with `obj` and removed with it."""
        return ()

    # Whether `validate` is called for writes of the status as well. If not, an object whose spec breaks a newer rule
    # still gets its status.
    validates_status_writes = True

    def validate(self, obj: Field) -> None:
        """Add the errors of an object."""

    def validate_create(self, obj: Field) -> None:
        """Add the errors that only a new object has."""

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        """Add the errors of the change from `old`."""

    @property
    def may_take_long(self) -> bool:
        """Whether the hooks may take long for small objects too, as with expressions of users."""
        return False

    def warnings(self, obj: JsonObject) -> list[str]:
        """Return texts for `Warning:` headers (RFC 9111, code 299) of a create."""
        return []

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        """Return texts for `Warning:` headers of an update. Writes of subresources have none."""
        return self.warnings(obj)


def errors_of(validate: Callable[..., None], obj: JsonObject, *arguments: Any) -> list[FieldError]:
    """Return the errors that a validating hook adds."""
    root = Field(obj)
    validate(root, *arguments)
    return root.errors


class StatusStrategy(Strategy):
    """Hooks for a resource whose users write only `spec` and whose controller writes only `status`."""

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        kept = "spec" if subresource == "status" else "status"
        obj[kept] = old.get(kept, {})


@dataclass(frozen=True)
class StoredForm:
    """The conversion of a resource whose objects are stored as those of another one, such as the Events of two groups.

    The conversions take and return whole objects; they may share parts with their argument. `fields` are the stored
    names of the resource's field selectors. `own_rules` are what the resource adds to the hooks of `resource`: their
    `validate_create` and `validate_update` get objects in the resource's own form.
    """

    resource: Resource
    to_stored: Callable[[JsonObject], JsonObject]
    from_stored: Callable[[JsonObject], JsonObject]
    fields: Mapping[str, str] = field(default_factory=dict)
    own_rules: Strategy = field(default_factory=Strategy)


class Definition(Protocol):
    """The schema of a kind that is not among Kubernetes' own definitions, such as that of a custom resource."""

    @property
    def name(self) -> str:
        """The name of its OpenAPI definition, such as `com.example.stable.v1.CronTab`."""
        ...

    @property
    def list_name(self) -> str:
        """The name of the definition of its lists."""
        ...

    @property
    def digest(self) -> str:
        """A text that changes with the schema."""
        ...

    @property
    def shape(self) -> Any:
        """The `shapes.Shape` of its objects."""
        ...

    def openapi(self, version: int) -> Mapping[str, JsonObject]:
        """Return its OpenAPI definitions (of version 2 or 3) by name, with references as `#/$defs/NAME`.

        They contain the definitions `name` and `list_name`.
        """
        ...


class Converter(Protocol):
    """The conversion of a resource whose objects may be stored in another version, or under an older schema.

    `storage` is the resource in the version in which objects are stored. It need not be served.
    """

    storage: Resource

    async def served(self, records: Sequence[Record]) -> list[Record]:
        """Return records as this version serves them. Raises `ApiStatus`."""
        ...

    async def to_stored(self, obj: JsonObject) -> JsonObject:
        """Return an object of this version in the storage version. Raises `ApiStatus`."""
        ...

    async def converted(self, obj: JsonObject, resource: Resource) -> JsonObject:
        """Return an object of this version in another one. Raises `ApiStatus`."""
        ...

    def is_in_storage_version(self, record: Record) -> bool: ...

    async def view(self, store: Store, namespace: str | None, *, with_records: bool) -> Store:
        """Return a store whose lists (if `with_records`) and watches have the objects of this version.

        It is for one list or one watch of the resource in `namespace` (None: all). Its watches end when the resource is
        exchanged or removed. Raises `ApiStatus`.
        """
        ...


class ScalePaths(NamedTuple):
    """The fields of a custom resource that its Scale shows. `selector` None: there is no such field."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] | None


@dataclass(frozen=True)
class Resource:
    """One resource of the API. `group` is "" for core; `plural` is the name in URLs."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    # The hooks of its objects in the form in which they are stored.
    strategy: Strategy = field(default_factory=Strategy)
    # Fields that field selectors may name, beside metadata.name and metadata.namespace.
    selectable: Mapping[str, Callable[[JsonObject], str]] = field(default_factory=dict)
    # Other names that field selectors may have for `selectable` fields; "": a name without a value.
    field_aliases: Mapping[str, str] = field(default_factory=dict)
    # The warning in every answer about a deprecated version.
    warning: str = ""
    # Whether `deletecollection` is allowed.
    deletes_collections: bool = True
    # Whether clients may only get and list it.
    is_read_only: bool = False
    # Whether `metadata.generation` counts changes of the desired state.
    has_generation: bool = False
    # The metadata whose changes it counts, too.
    counted_metadata: tuple[str, ...] = ()
    # Whether a delete answers with the object instead of a Status.
    returns_deleted: bool = False
    # Whether a delete without a propagation policy orphans the dependents.
    orphans_dependents: bool = False
    # A warning in the answer to such a delete.
    deletion_warning: str = ""
    # Whether an update creates an object that does not exist.
    is_created_by_update: bool = False
    # The objects that it stores; None: its own.
    stored_form: StoredForm | None = None
    # Its schema; None: Kubernetes' own definition of the kind.
    definition: Definition | None = None
    # The conversion of its objects; None: they are served as they are stored.
    converter: Converter | None = None
    # The fields of its subresource `scale`; None: those of a Deployment.
    scale: ScalePaths | None = None
    # The kind of its lists; "": its kind followed by "List".
    list_kind: str = ""
    # The message with which a create is refused.
    refuses_create: str = ""
    # The metadata that a write to `status` cannot change.
    kept_by_status: tuple[str, ...] = ()
    # Whether an update may leave out the resourceVersion.
    allows_unconditional_update: bool = True
    # Whether a finalizer may have a name without a domain and a slash.
    has_plain_finalizers: bool = False
    # All versions in which it is served, for the managers of its fields; (): its own.
    api_versions: tuple[str, ...] = ()
    # Returns the reasons why a name is invalid (`objects.names`).
    check_name: Callable[[str], list[str]] | None = None

    @cached_property
    def id(self) -> str:
        """The resource's name in the store and the authorizer: `services`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def allows(self, verb: str) -> bool:
        """Whether clients may make requests with this verb."""
        if self.is_read_only:
            return verb in ("get", "list")
        return self.deletes_collections or verb != "deletecollection"

    @property
    def stored(self) -> Resource:
        """The resource whose objects are stored: this one, or that of `stored_form`."""
        return self if self.stored_form is None else self.stored_form.resource

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version
