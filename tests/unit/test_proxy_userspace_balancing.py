"""Whose turn it is, and who stays with whom, in the userspace mode."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.proxy.frontends import Backend
from bridgehead.proxy.userspace import balancing
from bridgehead.proxy.userspace.balancing import Balancer, Memory


def backends(*numbers: int) -> list[Backend]:
    return [Backend(f"10.244.1.{number}", 8080) for number in numbers]


def place(number: int) -> tuple[str, int]:
    return f"10.244.1.{number}", 8080


def balancer(*numbers: int, seconds: int | None = None, memory: Memory | None = None, first: int = 0) -> Balancer:
    return Balancer(backends(*numbers), seconds, Memory() if memory is None else memory, first)


def test_everybody_has_a_turn() -> None:
    three = balancer(1, 2, 3, first=1)

    assert [three.choose("c", 0) for _ in range(4)] == [place(2), place(3), place(1), place(2)]


def test_without_backends_there_is_no_choice() -> None:
    assert balancer().choose("c", 0) is None


@given(
    st.lists(st.integers(1, 9), min_size=1, unique=True), st.lists(st.integers(1, 9), unique=True), st.integers(0, 50)
)
def test_what_failed_is_passed_over_while_there_is_another(here: list[int], failed: list[int], first: int) -> None:
    chosen = balancer(*here, first=first).choose("c", 0, [place(number) for number in failed])

    assert chosen in [place(number) for number in here]
    if set(here) - set(failed):
        assert chosen not in [place(number) for number in failed]


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, unique=True), min_size=1))
def test_turns_stay_even_whatever_changes(changes: list[list[int]]) -> None:
    memory = Memory()
    one = Balancer(backends(1), None, memory)
    for numbers in changes:
        one.change(backends(*numbers), None, memory)
        counts = Counter(one.choose("c", 0) for _ in range(3 * len(numbers)))
        assert counts == {place(number): 3 for number in numbers}


def test_a_client_stays_until_it_was_away_for_the_timeout() -> None:
    sticky = balancer(1, 2, 3, seconds=10)
    sticky.served("c", place(2), 0)

    assert sticky.choose("c", 9.9) == place(2)
    sticky.served("c", place(2), 9.9)
    assert sticky.choose("c", 19.8) == place(2), "each connection counts anew"
    assert {sticky.choose("c", 20) for _ in range(3)} == {place(1), place(2), place(3)}


def test_a_client_is_known_at_every_listener_of_the_service_port() -> None:
    memory = Memory()
    one, other = balancer(1, 2, seconds=10, memory=memory), balancer(2, 3, seconds=10, memory=memory)
    one.served("c", place(2), 0)
    one.served("d", place(1), 0)

    assert other.choose("c", 1) == place(2)
    assert other.choose("d", 1) in (place(2), place(3)), "its backend is none of this listener's"


def test_a_client_is_forgotten_with_its_backend() -> None:
    memory = Memory()
    sticky = balancer(1, 2, seconds=10, memory=memory)
    sticky.served("c", place(1), 0)

    assert sticky.change(backends(2), 10, memory) == {place(1)}
    sticky.change(backends(2, 1), 10, memory)

    assert sticky.choose("c", 1) == place(2), "its turn; the client is not led back to where it was"


def test_a_client_whose_backend_fails_gets_another() -> None:
    sticky = balancer(1, 2, seconds=10)
    sticky.served("c", place(2), 0)

    assert sticky.choose("c", 1, [place(2)]) == place(1)
    sticky.failed("c")
    assert [sticky.choose("c", 1) for _ in range(2)] == [place(2), place(1)]


def test_as_many_clients_are_remembered_as_there_is_room(monkeypatch) -> None:
    monkeypatch.setattr(balancing, "REMEMBERED", 3)
    memory = Memory()
    for number, client in enumerate("abcad"):
        memory.note(client, place(number), 0)

    assert len(memory) == 3
    assert [memory.recall(client, 10, 1) for client in "abcd"] == [place(3), None, place(2), place(4)]
