"""Work on many objects is not searched for cycles, work on few is; afterwards all is as it was."""

import gc

import pytest

from bridgehead.proxy.bulk import MANY, bulk


@pytest.fixture(autouse=True)
def _thawed() -> object:
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
