"""Turns of backends, and session affinity, in the userspace mode."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.proxy.frontends import Backend
from bridgehead.proxy.userspace import balancing
from bridgehead.proxy.userspace.balancing import Balancer, Memory


def backends(*numbers: int) -> list[Backend]:
    return [Backend(f"10.244.1.{number}", 8080) for number in numbers]


def target(number: int) -> tuple[str, int]:
    return f"10.244.1.{number}", 8080


def balancer(*numbers: int, seconds: int | None = None, memory: Memory | None = None, first: int = 0) -> Balancer:
    return Balancer(backends(*numbers), seconds, Memory() if memory is None else memory, first)


def test_backends_are_chosen_in_turn() -> None:
    three = balancer(1, 2, 3, first=1)

    assert [three.choose("c", 0) for _ in range(4)] == [target(2), target(3), target(1), target(2)]


def test_without_backends_there_is_no_choice() -> None:
    assert balancer().choose("c", 0) is None


@given(
    st.lists(st.integers(1, 9), min_size=1, unique=True), st.lists(st.integers(1, 9), unique=True), st.integers(0, 50)
)
def test_a_failed_backend_is_skipped_while_another_exists(here: list[int], failed: list[int], first: int) -> None:
    chosen = balancer(*here, first=first).choose("c", 0, [target(number) for number in failed])

    assert chosen in [target(number) for number in here]
    if set(here) - set(failed):
        assert chosen not in [target(number) for number in failed]


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, unique=True), min_size=1))
def test_turns_stay_even_across_changes(changes: list[list[int]]) -> None:
    memory = Memory()
    one = Balancer(backends(1), None, memory)
    for numbers in changes:
        one.change(backends(*numbers), None, memory)
        counts = Counter(one.choose("c", 0) for _ in range(3 * len(numbers)))
        assert counts == {target(number): 3 for number in numbers}


def test_affinity_ends_after_the_idle_timeout() -> None:
    sticky = balancer(1, 2, 3, seconds=10)
    sticky.on_connected("c", target(2), 0)

    assert sticky.choose("c", 9.9) == target(2)
    sticky.on_connected("c", target(2), 9.9)
    assert sticky.choose("c", 19.8) == target(2), "each connection counts anew"
    assert {sticky.choose("c", 20) for _ in range(3)} == {target(1), target(2), target(3)}


def test_affinity_is_shared_by_all_listeners_of_a_service_port() -> None:
    memory = Memory()
    one, other = balancer(1, 2, seconds=10, memory=memory), balancer(2, 3, seconds=10, memory=memory)
    one.on_connected("c", target(2), 0)
    one.on_connected("d", target(1), 0)

    assert other.choose("c", 1) == target(2)
    assert other.choose("d", 1) in (target(2), target(3)), "its backend is none of this listener's"


def test_affinity_ends_with_the_backend() -> None:
    memory = Memory()
    sticky = balancer(1, 2, seconds=10, memory=memory)
    sticky.on_connected("c", target(1), 0)

    assert sticky.change(backends(2), 10, memory) == {target(1)}
    sticky.change(backends(2, 1), 10, memory)

    assert sticky.choose("c", 1) == target(2), "its turn; the client is not led back to where it was"


def test_a_client_of_a_failed_backend_gets_another() -> None:
    sticky = balancer(1, 2, seconds=10)
    sticky.on_connected("c", target(2), 0)

    assert sticky.choose("c", 1, [target(2)]) == target(1)
    sticky.on_failed("c")
    assert [sticky.choose("c", 1) for _ in range(2)] == [target(2), target(1)]


def test_the_number_of_remembered_clients_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(balancing, "MOST_CLIENTS", 3)
    memory = Memory()
    for number, client in enumerate("abcad"):
        memory.record(client, target(number), 0)

    assert len(memory) == 3
    assert [memory.recall(client, 10, 1) for client in "abcd"] == [target(3), None, target(2), target(4)]
