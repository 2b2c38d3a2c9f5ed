"""The kernel of the ipvs mode where a part of it is missing."""

from __future__ import annotations

import errno
import os

import pytest

from bridgehead.network.ipset import SetHeader, SetType
from bridgehead.proxy import iptables
from bridgehead.proxy.config import IpvsOptions
from bridgehead.proxy.errors import ModeUnavailable
from bridgehead.proxy.ipvs.apply import Kernel


class Sets:
    """IP sets of a kernel that answers every question in the same way."""

    def __init__(self, answer: dict[str, SetHeader] | OSError) -> None:
        self.answer = answer

    def headers(self) -> dict[str, SetHeader]:
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


def kernel(answer: dict[str, SetHeader] | OSError) -> Kernel:
    found = object.__new__(Kernel)  # without the kernel's sockets
    found._sets = Sets(answer)  # type: ignore[assignment]
    found.tables = iptables.NoCommands()
    return found


def failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def test_a_kernel_without_ip_sets_has_none_to_remove() -> None:
    some = {"KUBE-CLUSTER-IP": SetHeader(SetType("hash:ip,port"), 0, 65536)}

    assert kernel(some)._existing_sets() == some
    assert kernel(failure(errno.EINVAL))._existing_sets() == {}
    with pytest.raises(PermissionError):
        kernel(failure(errno.EPERM))._existing_sets()


async def test_without_iptables_commands_the_mode_is_not_available() -> None:
    with pytest.raises(ModeUnavailable, match="the iptables commands are not here: install the package iptables"):
        await kernel({}).probe(IpvsOptions())
