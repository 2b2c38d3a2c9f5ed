import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.storage.etcd.client.requests import prefix_end


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"/a", b"/b"), (b"a\xff", b"b"), (b"\xff", b"\0"), (b"", b"\0"), (b"/registry/", b"/registry0")],
)
def test_the_end_of_a_prefix(prefix, end):
    assert prefix_end(prefix) == end


@given(st.binary(), st.binary())
def test_the_range_has_the_keys_of_the_prefix_alone(prefix, key):
    end = prefix_end(prefix)
    is_inside = key >= prefix and (end == b"\0" or key < end)
    assert is_inside == key.startswith(prefix)
