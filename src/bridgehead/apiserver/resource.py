"""The entry of one resource in the API server's table, and the hooks that make a resource special.

Adding a resource is adding a `Resource` to `resources.build_table`. A plain one needs nothing but its names and
columns; defaults, rules and allocation of a special one are a `Strategy` in a module of its own under `resources/`.
Hooks see objects as decoded JSON whose fields and types already agree with the schema, nulls removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]


def copied(value: Any) -> Any:
    """`copy.deepcopy` for what JSON can say, five times as fast."""
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value


@dataclass(frozen=True)
class FieldError:
    """One cause of a 422, in the API's own terms.

    `reason` is one of FieldValueRequired, FieldValueInvalid, FieldValueDuplicate, FieldValueForbidden,
    FieldValueNotSupported, FieldValueTooLong, FieldValueNotFound, FieldValueTypeInvalid, FieldValueTooMany.
    `field` is a path such as `spec.ports[0].nodePort`; `message` is the full text of the cause
    (`Invalid value: 0: must be between 1 and 65535, inclusive`).
    """

    reason: str
    field: str
    message: str


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`. `priority` 0 is always shown, 1 only with `-o wide`.

    `cell` computes the value from the object and `now` (seconds since the epoch, for ages).
    """

    name: str
    cell: Callable[[JsonObject, float], str | int]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Strategy:
    """What is special to one resource. This base is a plain resource: no hook does anything.

    Order for a create: `default`, `prepare_create`, `allocate`, `validate`, then the store (with `claims`).
    For an update: `default`, `prepare_update`, `allocate`, `validate`, `validate_update`, then the store.
    Hooks change the object in place; validators only report.
    """

    def default(self, obj: JsonObject) -> None:
        """Fill in what Kubernetes fills in for fields left out."""

    def prepare_create(self, obj: JsonObject) -> None:
        """Drop what a creator may not set (such as `status`) and set initial values."""

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        """Carry over from `old` what this request may not change: `status` for "", `spec` for "status"."""

    def allocate(self, obj: JsonObject, old: JsonObject | None, is_claimed: Callable[[str], bool]) -> list[FieldError]:
        """Choose addresses and ports that the request left open; report those that it asked for and can't have.

        Errors end the request. When another writer took a chosen claim first, it is called again with a fresh copy of
        the prepared object, so that a choice is not taken for a wish. `is_claimed` tells of all stored objects, `old`
        included.
        """
        return []

    def claims(self, obj: JsonObject) -> frozenset[str]:
        """What `obj` holds exclusively; see `storage.Facts`."""
        return frozenset()

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return []

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return []

    def warnings(self, obj: JsonObject) -> list[str]:
        """Texts for `Warning:` headers (RFC 9111, code 299)."""
        return []


class StatusStrategy(Strategy):
    """Of a resource whose `spec` is its users' and whose `status` is its controller's: neither writes the other's."""

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        kept = "spec" if subresource == "status" else "status"
        obj[kept] = old.get(kept, {})


@dataclass(frozen=True)
class Resource:
    """One resource of the API. `group` is "" for core; `plural` is its place in the URL."""

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
    strategy: Strategy = field(default_factory=Strategy)
    # Fields that field selectors may name, beside metadata.name and metadata.namespace.
    selectable: Mapping[str, Callable[[JsonObject], str]] = field(default_factory=dict)
    # What every answer about it warns of, such as that it is deprecated.
    warning: str = ""
    # Whether everything of it may be deleted at once (in a namespace, if it is namespaced).
    deletes_collections: bool = True
    # How a name is checked: returns reasons for refusal (`objects.names`).
    check_name: Callable[[str], list[str]] | None = None

    @property
    def id(self) -> str:
        """The store's and the authorizer's name for it: `services`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version
