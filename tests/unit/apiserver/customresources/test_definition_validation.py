"""Validation of definitions, with the texts of Kubernetes."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from bridgehead.apiserver.bodies.definitions import OBJECT_META, LazyDefinitions
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.customresourcedefinitions import DefinitionStrategy
from bridgehead.apiserver.customresources.definition_validation import (
    validate_definition,
    validate_definition_status,
    validate_definition_update,
)

from .definitions import SCALE, definition, texts, version

METADATA = Schema(LazyDefinitions()).of_definition(OBJECT_META)
STRATEGY = DefinitionStrategy(lambda: METADATA)
HOST = {"type": "object", "properties": {"host": {"type": "string"}, "nested": {"type": "object"}}}
LABEL = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"


def complete(crd: dict[str, Any]) -> dict[str, Any]:
    crd = copy.deepcopy(crd)
    STRATEGY.default(crd)
    STRATEGY.prepare_create(crd)
    return crd


def errors(crd: dict[str, Any]) -> list[str]:
    return texts(validate_definition, complete(crd), METADATA)


def webhook(**changes: Any) -> dict[str, Any]:
    client = {"service": {"name": "a", "namespace": "b"}}
    hook = {"clientConfig": client, "conversionReviewVersions": ["v1"], **changes}
    return {"strategy": "Webhook", "webhook": {key: value for key, value in hook.items() if value is not None}}


def selecting(*paths: str, schema: Any = HOST) -> dict[str, Any]:
    return definition(version(schema=schema, selectableFields=[{"jsonPath": path} for path in paths]))


def column(**fields: Any) -> dict[str, Any]:
    return definition(version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".a", **fields}]))


def scaled(**paths: str) -> dict[str, Any]:
    return definition(version(subresources={"scale": {**SCALE, **paths}}))


PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
VALID = [
    definition(),
    definition(version(subresources={"status": {}, "scale": SCALE}), scope="Cluster"),
    definition(version("v2"), version("v1", storage=False, deprecated=True, deprecationWarning="use v2")),
    definition(conversion=webhook()),
    definition(conversion=webhook(clientConfig={"url": "https://a.example.com/x"})),
    definition(conversion=webhook(clientConfig={"url": "https://a.example.com", "caBundle": "bm90IFBFTQ=="})),
    selecting(".host"),
    column(type="date", format="date-time", jsonPath=".status.conditions[?(@.type=='Ready')].lastTransitionTime"),
]

INVALID = [
    (definition(group=""), 'metadata.name: Invalid value: "crontabs."'),
    (definition(group=""), "spec.group: Required value"),
    (definition(group="A.b"), 'spec.group: Invalid value: "A.b": a lowercase RFC 1123 subdomain'),
    (definition(group="local"), 'spec.group: Invalid value: "local": should be a domain with at least one dot'),
    (definition(scope=""), "spec.scope: Required value"),
    (definition(scope="All"), 'spec.scope: Unsupported value: "All": supported values: "Cluster", "Namespaced"'),
    (definition(plural="Tabs"), f'spec.names.plural: Invalid value: "Tabs": {LABEL}'),
    (definition(plural=""), "spec.names.plural: Required value"),
    (definition(kind=""), "spec.names.kind: Required value"),
    (definition(kind=""), "spec.names.singular: Required value"),
    (definition(kind=""), "spec.names.listKind: Required value"),
    (
        definition(kind="9Tab"),
        f'spec.names.kind: Invalid value: "9Tab": may have mixed case, but should otherwise match: {LABEL}',
    ),
    (
        definition(names={"listKind": "CronTab"}),
        'spec.names.listKind: Invalid value: "CronTab": kind and listKind may not be the same',
    ),
    (definition(names={"shortNames": ["ct", ""]}), 'spec.names.shortNames[1]: Invalid value: "": a DNS-1035 label'),
    (definition(names={"categories": ["A"]}), 'spec.names.categories[0]: Invalid value: "A": a DNS-1035 label'),
    (definition(version("1")), 'spec.versions[0].name: Invalid value: "1": a DNS-1035 label'),
    (definition(version(), version()), "must contain unique version names"),
    (definition(version(), version()), "must have exactly one version marked as storage version"),
    (definition(version(storage=False)), "must have exactly one version marked as storage version"),
    (
        definition({"name": "v1", "served": True, "storage": True}),
        "spec.versions[0].schema.openAPIV3Schema: Required value",
    ),
    (
        definition(version(deprecationWarning="x")),
        'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions',
    ),
    (definition(version(deprecated=True, deprecationWarning="")), "must not be an empty string"),
    (definition(version(deprecated=True, deprecationWarning="x" * 257)), "must be <= 256 characters long"),
    (
        definition(version(deprecated=True, deprecationWarning="é\n")),
        "must only contain printable UTF-8 characters; non-printable character found at index 2",
    ),
    (
        definition(preserveUnknownFields=True),
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields",
    ),
    (
        definition(preserveUnknownFields=True, conversion=webhook()),
        'spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true',
    ),
    # Errors that all versions have in common are reported once.
    (definition(version(schema={"type": "string"})), "spec.validation.openAPIV3Schema.type: Invalid value"),
    (
        definition(version(schema={"type": "string"}), version("v2", storage=False, schema={"type": "object"})),
        "spec.versions[0].schema.openAPIV3Schema.type: Invalid value",
    ),
    (scaled(specReplicasPath=""), "spec.subresources.scale.specReplicasPath: Required value"),
    (scaled(specReplicasPath="a"), "must be a simple json path starting with ."),
    (scaled(specReplicasPath=".a"), 'Invalid value: ".a": should be a json path under .spec'),
    (scaled(statusReplicasPath=".spec.a"), "should be a json path under .status"),
    (scaled(labelSelectorPath=".a.b"), "should be a json path under either .spec or .status"),
    (column(name=""), "spec.additionalPrinterColumns[0].name: Required value"),
    (
        column(type=""),
        "spec.additionalPrinterColumns[0].type: Required value: must be one of boolean,date,integer,number,string",
    ),
    (column(type="object"), 'type: Invalid value: "object": must be one of boolean,date,integer,number,string'),
    (column(format="x"), 'format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64'),
    (column(jsonPath=""), "spec.additionalPrinterColumns[0].JSONPath: Required value"),
    (column(jsonPath="a"), "must be a simple json path starting with ."),
    (selecting(""), "spec.selectableFields[0].jsonPath: Required value"),
    (selecting(".nope"), 'Invalid value: ".nope": is an invalid path: does not refer to a valid field'),
    (selecting(".nested"), "must point to a field of type string, boolean or integer."),
    (selecting(".host", ".host"), 'spec.selectableFields[1].jsonPath: Duplicate value: ".host"'),
    (selecting(".metadata", schema={"type": "object", "properties": {"metadata": {"type": "object"}}}), "metadata"),
    (
        selecting(
            *(f".f{n}" for n in range(9)),
            schema={"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(9)}},
        ),
        "spec.selectableFields: Too many: 9: must have at most 8 items",
    ),
    (
        definition({"name": "v1", "storage": True, "selectableFields": [{"jsonPath": ".a"}]}),
        'spec.selectableFields: Invalid value: "": may only be set when validations.schema is included',
    ),
    (definition(conversion={"strategy": ""}), "spec.conversion.strategy: Required value"),
    (definition(conversion={"strategy": "X"}), 'Unsupported value: "X": supported values: "None", "Webhook"'),
    (
        definition(conversion={"strategy": "Webhook"}),
        "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
    ),
    (definition(conversion={"strategy": "Webhook"}), "spec.conversion.conversionReviewVersions: Required value"),
    (
        definition(conversion={**webhook(), "strategy": "None"}),
        "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
    ),
    (
        definition(conversion={**webhook(), "strategy": "None"}),
        "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
    ),
    (definition(conversion=webhook(clientConfig={})), "exactly one of url or service is required"),
    (
        definition(conversion=webhook(conversionReviewVersions=["v9"])),
        'Invalid value: ["v9"]: must include at least one of v1, v1beta1',
    ),
    (
        definition(conversion=webhook(conversionReviewVersions=["v1", "v1"])),
        'spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version',
    ),
    (
        definition(conversion=webhook(conversionReviewVersions=["1", "v1"])),
        'spec.conversion.conversionReviewVersions[0]: Invalid value: "1": a DNS-1035 label',
    ),
    (
        definition(conversion=webhook(clientConfig={"url": "http://a/b"})),
        "'https' is the only allowed URL scheme; desired format: https://host[/path]",
    ),
    (definition(conversion=webhook(clientConfig={"url": "https:///b"})), 'Invalid value: "": host must be specified'),
    (definition(conversion=webhook(clientConfig={"url": "https://[/b"})), "url must be a valid URL: "),
    (definition(conversion=webhook(clientConfig={"url": "https://a@b"})), "user information is not permitted"),
    (definition(conversion=webhook(clientConfig={"url": "https://b#a"})), "fragments are not permitted in the URL"),
    (definition(conversion=webhook(clientConfig={"url": "https://b?a"})), "query parameters are not permitted"),
    (
        definition(conversion=webhook(clientConfig={"service": {}})),
        "spec.conversion.webhookClientConfig.service.name: Required value",
    ),
    (
        definition(conversion=webhook(clientConfig={"service": {}})),
        "webhookClientConfig.service.namespace: Required value",
    ),
    # Kubernetes reports a missing name at `namespace`.
    (
        definition(conversion=webhook(clientConfig={"service": {"namespace": "b"}})),
        "spec.conversion.webhookClientConfig.service.namespace: Required value",
    ),
    (
        definition(conversion=webhook(clientConfig={"service": {"name": "a", "namespace": "b", "port": 0}})),
        "service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
    ),
    (
        definition({"name": "1a", "storage": True}),
        'spec.version: Invalid value: "1a": a DNS-1035 label must consist of',
    ),
    (
        definition(conversion=webhook(clientConfig={"service": {"name": "a", "namespace": "b", "port": 70000}})),
        "service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
    ),
    *(
        (definition(conversion=webhook(clientConfig={"service": {"name": "a", "namespace": "b", "path": path}})), text)
        for path, text in (
            ("a", "must start with a '/'"),
            ("//", "segment[0] may not be empty"),
            ("/a//b", "segment[1] may not be empty"),
            ("/A", "segment[0]: a lowercase RFC 1123 subdomain"),
        )
    ),
]


@pytest.mark.parametrize("crd", VALID)
def test_valid_definitions_have_no_errors(crd):
    assert errors(crd) == []


@pytest.mark.parametrize(("crd", "expected"), INVALID)
def test_an_error_has_the_text_of_kubernetes(crd, expected):
    assert any(expected in error for error in errors(crd)), errors(crd)


def established(crd: dict[str, Any]) -> dict[str, Any]:
    crd = complete(crd)
    crd["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return crd


def updated(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    new = complete(new)
    STRATEGY.prepare_update(new, old, "")
    return texts(validate_definition_update, new, old, METADATA)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (definition(), []),
        (definition(scope="Cluster"), ['spec.scope: Invalid value: "Cluster": field is immutable']),
        (definition(kind="Tab"), ['spec.names.kind: Invalid value: "Tab": field is immutable']),
        (definition(plural="tabs"), ['spec.names.plural: Invalid value: "tabs": field is immutable']),
        (
            definition(conversion=webhook(clientConfig={"url": "https://a", "caBundle": "bm90IFBFTQ=="})),
            [
                'spec.conversion.webhookClientConfig.caBundle: Invalid value: "bm90IFBFTQ==": unable to load root '
                "certificates: unable to parse bytes as PEM block"
            ],
        ),
    ],
)
def test_what_is_served_cannot_change_its_identity(changed, expected):
    assert updated(established(definition()), changed) == expected


def test_a_definition_that_was_never_served_may_change_its_kind():
    assert updated(complete(definition()), definition(kind="Tab", scope="Cluster")) == []


def test_an_unusable_bundle_may_stay():
    bad = base64.b64encode(PEM.encode()).decode()
    crd = definition(conversion=webhook(clientConfig={"url": "https://a", "caBundle": bad}))
    assert updated(established(crd), crd) == []
    good = established(definition())
    assert any("caBundle" in error for error in updated(good, crd))


def test_what_preserved_unknown_fields_may_go_on():
    old = established(definition(preserveUnknownFields=True))
    assert updated(old, definition(preserveUnknownFields=True)) == []


def test_a_stored_version_must_stay_until_it_is_migrated():
    old = established(definition(version("v1"), version("v2", storage=False)))
    (error,) = updated(old, definition(version("v2")))
    assert error.startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was prev')
    crd = complete(definition())
    crd["status"]["storedVersions"] = []
    (error,) = texts(validate_definition, crd, METADATA)
    assert error == "status.storedVersions: Invalid value: []: must have at least one stored version"


def test_only_names_of_a_status_are_validated():
    crd = complete(definition())
    assert texts(validate_definition_status, crd) == []
    crd["status"]["acceptedNames"] = {"plural": "A"}
    (error,) = texts(validate_definition_status, crd)
    assert error.startswith("status.acceptedNames.plural: ")


def test_a_definition_being_deleted_can_lose_its_finalizers_whatever_its_schema_is():
    old = complete(definition(group="local"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert texts(STRATEGY.validate_update, copy.deepcopy(old), old, "") == []
    del old["metadata"]["deletionTimestamp"]
    assert texts(STRATEGY.validate_update, copy.deepcopy(old), old, "") != []


def test_formats_that_are_not_checked_are_warned_about_once():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "format": "colour"}, "b": {"type": "string", "format": "uuid"}},
    }
    crd = definition(version(schema=schema), version("v2", storage=False, schema=schema))
    assert STRATEGY.warnings(crd) == ['unrecognized format "colour"']
    assert STRATEGY.warnings(definition()) == []
