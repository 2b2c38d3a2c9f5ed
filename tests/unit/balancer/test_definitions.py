"""The definitions of MetalLB's and OpenELB's kinds agree with the typed kinds."""

from __future__ import annotations

import pytest

from bridgehead.balancer.definitions.install import FILES, load_definitions
from bridgehead.objects import metallb, openelb
from bridgehead.objects.kinds import Kind

KINDS = [kind for module in (metallb, openelb) for kind in vars(module).values() if isinstance(kind, Kind)]


@pytest.mark.parametrize("file", FILES)
def test_each_file_has_the_definitions_of_its_list(file: str) -> None:
    assert tuple(definition["metadata"]["name"] for definition in load_definitions(file)) == FILES[file]


def test_every_typed_kind_is_defined() -> None:
    defined = {
        (spec["group"], version["name"], spec["names"]["plural"], spec["names"]["kind"], spec["scope"] == "Namespaced")
        for file in FILES
        for definition in load_definitions(file)
        for spec in [definition["spec"]]
        for version in spec["versions"]
    }
    assert {(kind.group, kind.version, kind.plural, kind.name, kind.namespaced) for kind in KINDS} <= defined
    assert len(KINDS) == sum(map(len, FILES.values()))


def test_the_definitions_know_the_fields_of_the_typed_kinds() -> None:
    specs = {
        (spec["group"], spec["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]["properties"]
        for file in FILES
        for definition in load_definitions(file)
        for spec in [definition["spec"]]
        for version in spec["versions"]
    }
    for kind in KINDS:
        declared = specs[kind.group, kind.name, kind.version]
        for part in ("spec", "status"):
            type_ = kind.type.__annotations__.get(part)
            if type_ is not None and "properties" in declared[part]:
                fields = getattr(kind.type(), part).__struct_encode_fields__
                assert set(fields) <= set(declared[part]["properties"]), (kind.name, part)
