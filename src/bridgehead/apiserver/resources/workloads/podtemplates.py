"""PodTemplate (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodTemplate`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.pods import (
    drop_disabled_fields,
    set_spec_defaults,
    validate_template,
    warn_of_template,
)
from bridgehead.apiserver.resources.shared.columns import NAME, at, format_labels
from bridgehead.objects.names import check_dns1123_subdomain


class PodTemplateStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        template: JsonObject = obj.setdefault("template", {})
        template.setdefault("metadata", {})
        set_spec_defaults(template.setdefault("spec", {}))
        drop_disabled_fields(template["spec"])

    def validate(self, obj: Field) -> None:
        validate_template(obj.at("template"))

    def warnings(self, obj: JsonObject) -> list[str]:
        return warn_of_template("template", obj.get("template", {}))


def _containers(obj: JsonObject) -> Iterable[JsonObject]:
    return at(obj, "template", "spec", "containers") or ()


RESOURCE = Resource(
    group="",
    version="v1",
    kind="PodTemplate",
    plural="podtemplates",
    singular="podtemplate",
    namespaced=True,
    strategy=PodTemplateStrategy(),
    columns=(
        NAME,
        Column("Containers", lambda obj, now: ",".join(str(one.get("name", "")) for one in _containers(obj))),
        Column("Images", lambda obj, now: ",".join(str(one.get("image", "")) for one in _containers(obj))),
        Column("Pod Labels", lambda obj, now: format_labels(at(obj, "template", "metadata", "labels"))),
    ),
    has_generation=True,
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
