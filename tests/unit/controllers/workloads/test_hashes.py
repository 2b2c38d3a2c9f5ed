"""Template hashes: FNV-1a against its published vectors, the alphabet, and what does and doesn't change a hash."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.workloads.hashes import fnv1a_32, safe_encode, template_hash
from bridgehead.objects.meta import ObjectMeta, PodTemplate


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"b", 0xE70C2DE5), (b"foobar", 0xBF9CF968)],
)
def test_fnv_matches_the_published_vectors(data: bytes, value: int) -> None:
    assert fnv1a_32(data) == value


def test_digits_are_encoded_as_in_kubernetes() -> None:
    # rand.SafeEncodeString maps each byte to alphabet[byte % 27]
    assert safe_encode("0123456789") == "456789bcdf"


def template(image: str = "nginx", **labels: str) -> PodTemplate:
    return PodTemplate(metadata=ObjectMeta(labels=labels), spec={"containers": [{"name": "a", "image": image}]})


def test_the_hash_depends_on_values_but_not_on_key_order() -> None:
    one = PodTemplate(spec={"a": 1, "b": {"c": 2, "d": 3}})
    other = PodTemplate(spec={"b": {"d": 3, "c": 2}, "a": 1})
    assert template_hash(one) == template_hash(other)
    assert template_hash(template("nginx:1")) != template_hash(template("nginx:2"))
    assert template_hash(template(app="a")) != template_hash(template(app="b"))


def test_each_collision_count_gives_another_hash() -> None:
    hashes = {template_hash(template(), count) for count in (None, 0, 1, 2, 3)}
    assert len(hashes) == 5


@given(st.text(), st.none() | st.integers(0, 2**31 - 1))
def test_a_hash_is_a_label_value_without_vowels(image: str, count: int | None) -> None:
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{1,10}", template_hash(template(image), count))
