"""Names that differ by a typing error."""

from __future__ import annotations

import pytest

from bridgehead.insight.doctor.near_names import is_near, nearest


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("web", "wbe", True),
        ("web", "webb", True),
        ("web", "Web", True),
        ("web-front", "webfront", True),
        ("web_front", "web-front", True),
        ("frontend", "frontned", True),
        ("frontend", "fronted", True),
        ("frontend", "frotned", True),
        ("web", "web", False),
        ("web", "api", False),
        ("web-1", "web-2", False),
        ("v1", "v2", False),
        ("a", "b", False),
        ("", "a", False),
        ("frontend", "backend", False),
        ("x" * 300, "x" * 299, False),
    ],
)
def test_is_near(one, other, near):
    assert is_near(one, other) is near
    assert is_near(other, one) is near


def test_nearest():
    assert nearest("frontned", ["frontend", "frontends", "backend"]) == "frontend"
    assert nearest("web", ["api", "db"]) is None
    assert nearest("web", []) is None
