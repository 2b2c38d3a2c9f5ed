"""The garbage collector while code is loaded."""

from __future__ import annotations

import gc

import pytest

from bridgehead.heap import no_collection


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was_before(was_enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        with no_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if before else gc.disable)()
