"""Names and ids of images."""

from __future__ import annotations

import pytest

from bridgehead.cli.load import is_id_of

IDENTITY = "db0fe" + 59 * "0"


@pytest.mark.parametrize(
    ("source", "is_id"),
    [
        (IDENTITY, True),
        (IDENTITY[:12], True),
        (f"sha256:{IDENTITY}", True),
        ("db", False),
        ("db0fe", False),
        ("db0fe0000001", False),
        ("db:1", False),
    ],
)
def test_only_long_names_are_ids(source: str, is_id: bool) -> None:
    assert is_id_of(source, IDENTITY) is is_id
