"""The garbage collector while code is loaded, and while many objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from bridgehead.heap import MANY, bulk, no_collection


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


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("objects", [1, MANY])
def test_garbage_collection_is_paused_only_for_many_objects(objects: int) -> None:
    with bulk(objects):
        assert gc.isenabled() is (objects < MANY)
    assert gc.isenabled()


def test_garbage_collection_resumes_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), bulk(MANY):
        raise ZeroDivisionError
    assert gc.isenabled()


def test_disabled_garbage_collection_stays_disabled() -> None:
    gc.disable()
    with bulk(MANY):
        pass
    assert not gc.isenabled()
