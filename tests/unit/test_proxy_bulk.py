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
def test_only_many_objects_are_worth_it(objects: int) -> None:
    with bulk(objects):
        assert gc.isenabled() is (objects < MANY)
    assert gc.isenabled()


def test_it_ends_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), bulk(MANY):
        raise ZeroDivisionError
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    with bulk(MANY):
        pass
    assert not gc.isenabled()
