"""Values and bounds of YAML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead import yaml_loader
from bridgehead.yaml_loader import UnusableYaml, duplicate_keys, load, load_all, load_object, load_texts

SOURCE = Path(yaml_loader.__file__).parent


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("1:30:00.5", "1:30:00.5"),
        ("2001-01-01", "2001-01-01"),
        ("0x_", "0x_"),
        ("1.2.3", "1.2.3"),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("0X1F", 31),
        ("0x_1", 1),
        ("0b11", 3),
        ("-0b11", -3),
        ("1_000", 1000),
        ("-3", -3),
        ("+0", 0),
        ("08", 8.0),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("._5", "._5"),
        (".", "."),
        ("-.inf", -math.inf),
        ("yes", True),
        ("y", True),
        ("N", False),
        ("~", None),
        ("", None),
        ('"1"', "1"),
        ("'~'", "~"),
        ("=", "="),
        ("<<", "<<"),
        ("18446744073709551615", 18446744073709551615),
        ("+18446744073709551615", 18446744073709551615.0),
        ("18446744073709551616", 18446744073709551616.0),
        ("0x10000000000000000", "0x10000000000000000"),
        ("9" * 5000, "9" * 5000),
        ("!!int 1:2:3:4", UnusableYaml("yaml: cannot decode !!str `1:2:3:4` as a !!int")),
        ("!!int 12", 12),
        ('!!float "a\\nb"', UnusableYaml("yaml: cannot decode !!str `a b` as a !!float")),
        ("!!float 3", 3.0),
        ("!!str 12", "12"),
        ("!!null ~", None),
        ("!!binary aGk=", "hi"),
        ("!!binary '*'", UnusableYaml("yaml: !!binary value contains invalid base64 data")),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("!unknown 12", "12"),
        ("!!set {a, b}", {"a": None, "b": None}),
        ("!!omap [a: 1]", [{"a": 1}]),
    ],
)
def test_values_are_read_as_by_the_library_of_kubernetes(text: str, value: object) -> None:
    document = f"value: {text}".encode()
    if isinstance(value, UnusableYaml):
        with pytest.raises(UnusableYaml) as caught:
            load_object(document)
        assert str(caught.value) == str(value)
    else:
        found = load_object(document)["value"]
        assert (found, type(found)) == (value, type(value))


MERGES = """
a: &a {x: 1, y: 2}
b: &b {x: 3, z: 4}
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{<<: *a, x: 5}", {"x": 5, "true": 2}),
        ("{x: 5, <<: *a}", {"x": 1, "true": 2}),
        ("{<<: [*a, *b]}", {"x": 1, "true": 2, "z": 4}),
        ("{<<: {x: 7}, <<: *b}", {"x": 3, "z": 4}),
        ("{!!merge foo: *a}", {"x": 1, "true": 2}),
        ('{"<<": *a}', {"<<": {"x": 1, "true": 2}}),
        ("[&s 1, &s 2, *s]", [1, 2, 2]),
        ("{*k : 1, k: &k key}", "yaml: unknown anchor 'k' referenced"),
        ("[&k key, {*k : 1}]", ["key", {"key": 1}]),
        ("{<<: ~}", "yaml: map merge requires map or sequence of maps as the value"),
        ("{<<: [1]}", "yaml: map merge requires map or sequence of maps as the value"),
        ("[&l [{x: 1}], {<<: *l}]", "yaml: map merge requires map or sequence of maps as the value"),
        ("&r [*r]", "yaml: anchor 'r' value contains itself"),
        ("&r {<<: *r}", "yaml: anchor 'r' value contains itself"),
    ],
)
def test_aliases_and_merges(text: str, value: object) -> None:
    document = f"{MERGES}c: {text}"
    if isinstance(value, str):
        with pytest.raises(UnusableYaml) as caught:
            load_object(document)
        assert str(caught.value) == value
    else:
        assert load_object(document)["c"] == value


def _levels(of: str, levels: int, first: str) -> str:
    """Return a document of levels that each have the one before ten times."""
    return f"a0: &a0 {first}\n" + "".join(
        f"a{n}: &a{n} {of % ', '.join([f'*a{n - 1}'] * 10)}\n" for n in range(1, levels + 1)
    )


EXCESSIVE = "yaml: document contains excessive aliasing"
DEPTH = "yaml: exceeded max depth of 200"
BOMBS: dict[str, Any] = {
    "aliases": (_levels("[%s]", 12, "[lol]"), EXCESSIVE),
    "merges": (_levels("{<<: [%s]}", 12, "{x: 1}"), EXCESSIVE),
    "merges and values": (_levels("{<<: [%s], v: *a0}", 12, "{x: {z: 1}}"), EXCESSIVE),
    "merges of inline mappings": (_levels("{<<: [{<<: [%s]}]}", 12, "{x: 1}"), EXCESSIVE),
    "aliases as keys": ("k: &k key\nv: [" + "{*k : 1}," * 200_000 + "]", "yaml: the document has too many nodes"),
    "long text": (f"a: &a {'x' * 1_000_000}\nb: [" + "*a," * 100 + "]", EXCESSIVE),
    "long text of levels": (_levels("[%s]", 3, "x" * 100_000), EXCESSIVE),
    "nested flow": ("[" * 1_000_000, DEPTH),
    "nested mappings": ("{a: " * 100_000, DEPTH),
    "nested indents": ("- " * 300_000, DEPTH),
    "nested by aliases": ("a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 500)), DEPTH),
    "nested by merges": ("a0: &a0 {}\n" + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}}}\n" for n in range(1, 500)), DEPTH),
    "nodes": ("[" + "1," * 1_000_000 + "]", "yaml: the document has too many nodes"),
    "anchors": ("".join(f"- &a{n}\n" for n in range(200_000)), "yaml: the document has too many nodes"),
    "merge keys": ("{" + "<<: {}, " * 100_000 + "}", "yaml: the document has too many nodes"),
    "directives": ("".join(f"%TAG !a{n}! x\n" for n in range(200_000)) + "--- 1", "yaml: the document has too many"),
    "directives in UTF-16": (("\n" + "%TAG !a! x\n" * 200 + "--- 1").encode("utf-16"), "yaml: the document has too m"),
}


@pytest.mark.parametrize(("text", "message"), BOMBS.values(), ids=BOMBS)
def test_a_document_is_refused_before_it_grows(
    text: str | bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_loader, "_MAX_EVENTS", 15_000)  # the real one takes 0.2 s
    with pytest.raises(UnusableYaml) as caught:
        load_object(text)
    assert str(caught.value).startswith(message)


def test_the_bound_of_nodes_is_that_of_the_program() -> None:
    with pytest.raises(UnusableYaml, match="too many nodes"):
        load_object("[" + "1," * 160_000 + "]")


@pytest.mark.parametrize("load_document", [load, load_texts, load_all])
def test_each_kind_of_document_has_these_bounds(load_document: Callable[[str], object]) -> None:
    with pytest.raises(UnusableYaml, match="excessive"):
        load_document(str(BOMBS["merges"][0]))


def test_duplicates_are_looked_for_within_the_bounds() -> None:
    with pytest.raises(UnusableYaml, match="excessive"):
        duplicate_keys(BOMBS["merges"][0], is_json=False)


def test_all_documents_of_a_stream_are_bounded_and_only_wanted_ones_are_read() -> None:
    stream = "a: 1\n---\n" + "[" * 10_000
    assert load_object(stream) == {"a": 1}
    with pytest.raises(UnusableYaml, match="max depth"):
        load_all(stream)
    with pytest.raises(UnusableYaml, match="single document"):
        load("a: 1\n---\nb: 2\n" + "---\n" * 100_000)
    assert load_object("") is load("# nothing") is None
    assert load_object("a: 1\n".encode("utf-16")) == {"a": 1}


def test_a_large_document_with_anchors_is_read() -> None:
    text = "base: &base {image: nginx, ports: [80, 443], labels: {a: one, b: two}}\npods:\n" + "".join(
        f"  - {{<<: *base, name: pod-{n}, also: *base}}\n" for n in range(5000)
    )
    pods = load_object(text)["pods"]
    assert len(pods) == 5000
    assert pods[-1]["name"] == "pod-4999"
    assert pods[-1]["ports"] == pods[-1]["also"]["ports"] == [80, 443]


def test_keys_that_a_mapping_has_twice() -> None:
    text = "a: 1\nb: &b {c: 1,\n  c: 2}\na: {<<: *b, <<: *b, c: 3}\n"
    assert duplicate_keys(text, is_json=False) == [
        'line 3: key "c" already set in map',
        'line 4: key "a" already set in map',
    ]
    assert load_object(text)["a"] == {"c": 3}


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(VALUES)
def test_json_is_yaml(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False).replace("Infinity", ".inf")
    assert load_object(text) == value or "Infinity" in repr(value)


def test_no_other_module_builds_values_from_yaml() -> None:
    """Each other way to read YAML expands untrusted aliases without a bound."""
    reader = re.compile(r"yaml\.(safe_|full_|unsafe_)?(load|compose|decode)")
    assert [path for path in SOURCE.rglob("*.py") if reader.search(path.read_text())] == []
