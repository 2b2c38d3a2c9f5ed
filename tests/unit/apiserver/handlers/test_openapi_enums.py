"""Enumerations in OpenAPI documents."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.handlers.openapi_enums import ENUMS, with_enums

DEFINITIONS = LazyDefinitions()


@pytest.mark.parametrize("name", ENUMS)
def test_every_enumeration_is_of_a_text_or_of_a_list_of_texts(name):
    schema = DEFINITIONS[f"io.k8s.api.{name}"]
    result = with_enums(f"io.k8s.api.{name}", schema)
    for field, values in ENUMS[name].items():
        assert list(values) == sorted(set(values)), "in the order of the generated documents"
        one = result["properties"][field]
        one = one.get("items", one)
        assert one["enum"] == list(values)
        assert "string" in one["type"]
    assert "enum" not in str({field: schema["properties"][field] for field in ENUMS[name]})


def test_other_definitions_stay_as_they_are():
    schema = DEFINITIONS["io.k8s.api.core.v1.ConfigMap"]
    assert with_enums("io.k8s.api.core.v1.ConfigMap", schema) is schema
