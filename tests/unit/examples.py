"""The number of Hypothesis' examples for a test that needs more or fewer than others."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_USUAL = 100  # examples, in the profile for which tests state theirs


def examples(count: int, **others: Any) -> settings:
    """Return settings with `count` examples, or in proportion fewer or more where the profile (tests/conftest.py) asks.

    `others` are passed to `hypothesis.settings`.
    """
    assert settings.default is not None
    scaled = round(count * settings.default.max_examples / _USUAL)
    return settings(max_examples=max(scaled, 1), **others)
