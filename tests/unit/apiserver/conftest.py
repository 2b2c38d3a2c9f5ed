"""Fixtures of all tests of the API server."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.registry import freshness


@pytest.fixture(autouse=True)
def _short_wait_for_future_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "BLOCK_SECONDS", 0.02)
