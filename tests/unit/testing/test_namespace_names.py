import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.testing.namespace_names import namespace_name


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("test_a_web", "a-web-x1"),
        ("test_ports[TCP-80]", "ports-tcp-80-x1"),
        ("test_" + "long_" * 20, "long-long-long-long-long-long-x1"),
        ("test_ü", "test-x1"),
    ],
)
def test_names(test, name):
    assert namespace_name(test, "x1") == name


@given(st.text(max_size=60))
def test_each_is_a_label_of_a_name(test):
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,35}[a-z0-9])?", namespace_name(test, "0a1b2c"))
