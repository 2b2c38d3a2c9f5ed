"""Real servers that wait for the end of their connections: when they are looked at, and when they go."""

from __future__ import annotations

from bridgehead.network.ipvs import Destination, Load, Server
from bridgehead.proxy.ipvs.draining import CHECK_SECONDS, LONGEST_SECONDS, Draining

WEB = Server(4, "10.96.0.10", "tcp", 80)
ONE, TWO = Destination("10.244.1.1", 8080), Destination("10.244.1.2", 8080)
IDLE, BUSY = Load(0, 0), Load(0, 3)


def test_a_draining_real_server_is_removed_with_its_last_connection() -> None:
    draining = Draining()
    draining.add(WEB, ONE, 0)
    draining.add(WEB, TWO, 0)

    assert draining.take_ended(WEB, {ONE: BUSY, TWO: IDLE}, 1) == ((TWO,), False)
    assert (WEB, ONE) in draining
    assert (WEB, TWO) not in draining
    assert draining.take_ended(WEB, {ONE: IDLE}, 2) == ((ONE,), False)
    assert draining.due(100) == ()


def test_a_draining_real_server_is_removed_after_the_longest_time() -> None:
    draining = Draining()
    draining.add(WEB, ONE, 0)
    draining.add(WEB, ONE, LONGEST_SECONDS - 1)

    assert draining.take_ended(WEB, {ONE: BUSY}, LONGEST_SECONDS - 1) == ((), False)
    assert draining.take_ended(WEB, {ONE: BUSY}, LONGEST_SECONDS) == ((ONE,), False)


def test_checks_have_an_interval() -> None:
    draining = Draining()
    assert draining.due(0) == ()
    draining.add(WEB, ONE, 0)

    assert draining.due(0) == (WEB,)
    assert draining.due(CHECK_SECONDS - 0.1) == ()
    assert draining.due(CHECK_SECONDS) == (WEB,)


def test_a_real_server_that_is_wanted_again_stays() -> None:
    draining = Draining()
    draining.add(WEB, ONE, 0)
    draining.close(WEB)

    draining.keep(WEB)
    draining.forget(WEB, ONE)

    assert draining.due(0) == ()
    assert draining.take_ended(WEB, {ONE: Load(1, 0)}, LONGEST_SECONDS) == ((), False)


def test_a_virtual_server_closes_with_its_last_real_server() -> None:
    draining = Draining()
    draining.add(WEB, ONE, 0)
    draining.close(WEB)

    assert draining.take_ended(WEB, {ONE: BUSY}, 1) == ((), False)
    assert draining.is_closing(WEB)
    assert draining.take_ended(WEB, {ONE: IDLE}, 2) == ((ONE,), True)
    assert not draining.is_closing(WEB)


def test_a_real_server_removed_by_another_program_is_forgotten() -> None:
    draining = Draining()
    draining.add(WEB, ONE, 0)

    assert draining.take_ended(WEB, {}, 1) == ((), False)
    draining.add(WEB, ONE, 0)
    draining.forget_server(WEB)
    assert draining.due(1) == ()
