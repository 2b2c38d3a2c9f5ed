"""Kinds and fields."""

from __future__ import annotations

from documentation.compatibility import FIELDS, KINDS, fields_of, resources

from bridgehead.objects import core


def test_every_resource_has_a_row() -> None:
    assert {resource.id for resource in resources()} == KINDS.keys()


def test_a_field_acts_if_a_part_reads_it() -> None:
    states = {name: state for name, state, _ in fields_of("", "io.k8s.api.core.v1.PodSpec", core.PodSpec)}
    assert states["nodeSelector"] == "acts"
    assert states["resourceClaims"] == "stored"


def test_each_field_of_a_type_is_one_of_the_definition() -> None:
    """A field that the definition lacks would be missing on the page."""
    import msgspec

    for heading, definition, kind in FIELDS:
        names = {name for name, _, _ in fields_of(heading, definition, kind)}
        assert {field.encode_name for field in msgspec.structs.fields(kind)} <= names, heading
