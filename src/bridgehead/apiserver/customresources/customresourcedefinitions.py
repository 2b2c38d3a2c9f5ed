"""The kind CustomResourceDefinition (apiextensions.k8s.io/v1): its entry in the table and its hooks.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go, pkg/registry/customresourcedefinition.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import NAME
from bridgehead.apiserver.shapes import Shape

from .definitions import (
    FINALIZER,
    GROUP,
    TERMINATING,
    make_condition,
    schema_of,
    storage_version,
    versions_of,
    with_conditions,
)

_WEBHOOK_PORT = 443
_DELETION_PENDING = make_condition(
    TERMINATING,
    is_true=True,
    reason="InstanceDeletionPending",
    message="CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)


class DefinitionStrategy(Strategy):
    """The hooks of definitions. `metadata` returns the shape of ObjectMeta."""

    def __init__(self, metadata: Callable[[], Shape]) -> None:
        self._metadata = metadata

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind", "")
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        webhook = conversion.get("webhook") or {}
        # Kubernetes has no place for a webhook of which nothing is given.
        if webhook.get("clientConfig") is None and webhook.get("conversionReviewVersions") is None:
            conversion.pop("webhook", None)
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = _WEBHOOK_PORT

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"acceptedNames": {"plural": "", "kind": ""}}
        _add_stored_version(obj)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = old["spec"]
            return
        obj["status"] = dict(old.get("status", {}))
        _add_stored_version(obj)

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers", [])
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
        obj["status"] = with_conditions(obj, [_DELETION_PENDING], now)["status"]

    # The validation is loaded when the first definition is written.

    def validate_create(self, obj: Field) -> None:
        from .definition_validation import validate_definition

        validate_definition(obj, self._metadata())

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        from .definition_validation import validate_definition_status, validate_definition_update

        if subresource == "status":
            validate_definition_status(obj)
        elif obj.get("spec") != old.get("spec") or "deletionTimestamp" not in obj.get("metadata"):
            # Finalizers of a definition that is being deleted can be removed, whatever its schema is.
            validate_definition_update(obj, old, self._metadata())

    def warnings(self, obj: JsonObject) -> list[str]:
        from .schema import format_warnings

        found = [text for version in versions_of(obj) for text in format_warnings(schema_of(version) or {})]
        return list(dict.fromkeys(found))


def _add_stored_version(obj: JsonObject) -> None:
    status = obj["status"]
    stored, version = status.get("storedVersions") or [], storage_version(obj)
    if version and version not in stored:
        status["storedVersions"] = [*stored, version]


def definition_resource(metadata: Callable[[], Shape]) -> Resource:
    """Return the entry of the table. `metadata` returns the shape of ObjectMeta."""
    return Resource(
        group=GROUP,
        version="v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        singular="customresourcedefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
        strategy=DefinitionStrategy(metadata),
        columns=(
            NAME,
            Column("Created At", lambda crd, now: crd["metadata"].get("creationTimestamp"), type="date"),
        ),
        has_generation=True,
        kept_by_status=CLIENT_METADATA,
        allows_unconditional_update=False,
        has_plain_finalizers=True,
    )
