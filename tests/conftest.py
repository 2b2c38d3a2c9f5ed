"""Setup of all tests: the search path, signals, garbage collection, logging, missing programs, and Hypothesis'
settings.

Hypothesis does not judge how fast a machine is, and its examples are the same in every run of the same test, so that
no change fails by chance. Profiles: `patient`, the default; `suite`, two fifths of the examples, for `make coverage`;
`quick`, a tenth, for `make unit`; `thorough`, ten times as many, and new ones in each run.
(`pytest --hypothesis-profile=thorough`)
"""

import gc
import logging
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies

from tests import guest, tools

# Labs of tests ask no registry but those that tests have on loopback.
os.environ["BRIDGEHEAD_OFFLINE"] = "1"

# Ordinary users often lack the directories where `nft` and `ip` are.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"

# Programs in Go (kubectl above all) end before they would need the memory that they collect: a quarter of their time.
os.environ.setdefault("GOGC", "off")
os.environ.setdefault("GOMEMLIMIT", "256MiB")  # those that stay collect then

# A script's background job ignores these signals, and so would every program that a test starts.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# Collected tests stay until the end (see `pytest_collection_finish`).
gc.disable()

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("suite", settings.get_profile("patient"), max_examples=30)
settings.register_profile("quick", settings.get_profile("patient"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=1000, derandomize=False)
settings.load_profile("patient")

# These files start first. Two take minutes, one of them with all other files of guests: one worker would run them long
# after the others have nothing left; so it would with the longest file of unit tests, and those of speakers, which
# mostly wait. One forks its process, which must not have threads that other files leave.
_FIRST = (
    "test_chaos.py",
    "test_proxy_modes.py",
    "test_wording.py",
    "test_kubelet_zygote.py",
    "test_speaker.py",
    "test_speaker_chaos.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all files with guests to one worker, so that there is one guest."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    guests = guest.files_with_guest_tests()

    class GuestsTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "guest" if file in guests else file

    return GuestsTogether(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Guests' tests are the last, without others between them, so that there is one guest."""
    items.sort(key=lambda item: (item.get_closest_marker("guest") is not None, item.path.name not in _FIRST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take modules and tests, which stay until the end, out of garbage collection, and collect after more allocations.

    Otherwise collection takes a fifth of the unit tests' time. Processes that `tests.forking` forks share Hypothesis'
    table of characters: without `.hypothesis`, each would take a second to make it.
    """
    if session.config.pluginmanager.has_plugin("tests.forking"):
        strategies.characters(codec="utf-8").validate()
    gc.collect()
    gc.enable()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore the root logger after a test: later tests would log more, and to a stream that is closed by then."""
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        return (yield)
    finally:
        logging.root.handlers[:] = handlers
        if logging.root.level != level:  # to set it clears the cache of every logger
            logging.root.setLevel(level)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        tools.require(*marker.args)
