"""The search for refused Services, with kernels that are functions of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.bisection import Batch, Rejection, drive, find_refused, parts_to_withhold, suspects


def run(keys: Batch, kernel: Callable[[Batch], Rejection]) -> tuple[dict[ObjectKey, str], list[Batch], int]:
    """Return the refused Services, the accepted batches and the number of attempts."""
    search, result, accepted, attempts = find_refused(keys), None, [], 0
    while True:
        try:
            batch = search.send(result)
        except StopIteration as end:
            return end.value, accepted, attempts
        attempts += 1
        result = kernel(batch)
        if result is None:
            accepted.append(batch)


def keys_of(count: int) -> list[ObjectKey]:
    return [ObjectKey("default", f"s{number}") for number in range(count)]


def test_services_that_changed_are_suspected_first() -> None:
    first, second = keys_of(2)
    assert suspects({first: "before"}, [first, second]) == [{first: "before"}, {first: None, second: None}]
    assert suspects({}, [first, second]) == [{first: None, second: None}]


@given(st.integers(0, 300), st.sets(st.integers(0, 299), max_size=12))
def test_exactly_the_rejected_services_are_found_in_few_attempts(count: int, numbers: set[int]) -> None:
    keys = keys_of(count)
    bad = {keys[number] for number in numbers if number < count}

    def kernel(batch: Batch) -> Rejection:
        culprits = [key for key in batch if key in bad]
        return f"{culprits[0].name} is bad" if culprits else None

    refused, accepted, attempts = run(keys, kernel)

    assert refused == {key: f"{key.name} is bad" for key in bad}
    assert sorted(key for batch in accepted for key in batch) == sorted(set(keys) - bad)
    assert attempts <= 1 + 2 * len(bad) * math.ceil(math.log2(max(count, 1)))


@given(st.integers(0, 60), st.data())
def test_an_inconsistent_kernel_ends_the_search(count: int, data: st.DataObject) -> None:
    keys = keys_of(count)

    refused, accepted, attempts = run(keys, lambda batch: data.draw(st.sampled_from([None, "no"])))

    found = [*refused, *(key for batch in accepted for key in batch)]
    assert sorted(found) == sorted(keys), "each Service is accepted or refused, once"
    assert attempts <= max(2 * count - 1, 0)


@given(st.integers(0, 20))
def test_parts_to_withhold_are_each_half_and_all(count: int) -> None:
    keys = keys_of(count)
    parts = parts_to_withhold(keys)
    assert all(parts), "an empty part would be no attempt"
    assert parts[-1:] == [keys][:count]
    if count > 1:
        assert [*parts[0], *parts[1]] == keys


async def test_drive_runs_every_attempt_and_returns_the_rejected_services() -> None:
    async def attempt(batch: Batch) -> Rejection:
        return "no" if ObjectKey("default", "s2") in batch else None

    assert await drive(find_refused(keys_of(5)), attempt) == {ObjectKey("default", "s2"): "no"}
