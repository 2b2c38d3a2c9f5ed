"""The process beside a lab that is its gateway: in the machine's network, with the rights of who started the lab.

It holds the gateway's network namespace, in which no process runs, and is the parent of user-mode networking. When it
ends, also by SIGKILL, the kernel removes the namespace with all links of the gateway, and with these the machine's
addresses and routes. It ends with the lab's first process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import time
from typing import Final, NoReturn

import msgspec

from bridgehead.lab.errors import LabError, StartFailed
from bridgehead.lab.ids import IdMap
from bridgehead.lab.plan import LabFiles, RunningLab
from bridgehead.lab.range_choice import Network
from bridgehead.lab.supervisor import restart_backoff, restart_delay
from bridgehead.network import syscalls
from bridgehead.network.netlink_socket import NetlinkSocket
from bridgehead.network.uapi.rtnetlink import (
    RTMGRP_IPV4_IFADDR,
    RTMGRP_IPV4_ROUTE,
    RTMGRP_IPV6_IFADDR,
    RTMGRP_IPV6_ROUTE,
)

from . import building
from .addressing import GatewayPlan, Version
from .machine import machine_routes
from .resolver import register_names
from .ruleset import own_networks, render_machine_sets, render_ruleset
from .user_mode import PROGRAM, UserModeNetwork

log = logging.getLogger(__name__)

_REPEAT_SECONDS: Final = 1.0  # after an update of the packet filter that failed
_ROUTE_CHANGES: Final = RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE


class _Answer(msgspec.Struct):
    """The answer of a new gateway. `error`: why it could not be built; `lack_of_names`: why the machine's resolver
    does not know the lab's names."""

    error: str = ""
    lack_of_names: str = ""


def start(plan: GatewayPlan, files: LabFiles, lab: RunningLab, id_map: IdMap | None, lock_fd: int) -> str:
    """Start the gateway of a lab whose network is built, and return when it works.

    Returns why this machine does not resolve the lab's names, "" if it does or need not. `lock_fd` holds the lock and
    stays open in the gateway. The caller must have no other threads. Raises `StartFailed`.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    middle = os.fork()
    if middle == 0:
        try:
            if os.fork() == 0:
                _run(plan, files, lab, id_map, lock_fd, writer)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answers:
        text = answers.read()
    os.waitpid(middle, 0)
    answer = msgspec.json.decode(text, type=_Answer) if text else _Answer(error="it ended without an error message")
    if answer.error:
        raise StartFailed(f"the gateway of the lab does not start: {answer.error}; see {files.log('gateway')}")
    return answer.lack_of_names


def _run(
    plan: GatewayPlan, files: LabFiles, lab: RunningLab, id_map: IdMap | None, lock_fd: int, writer: int
) -> NoReturn:
    """Run the gateway in this forked process."""
    try:
        try:
            end = os.pidfd_open(lab.init_pid)
            _prepare_process(files, lab, {end, lock_fd, writer})
            gateway = _Gateway(plan, lab, id_map, end)
            lack_of_names = gateway.build()
        except (OSError, LabError) as error:
            os.write(writer, msgspec.json.encode(_Answer(error=str(error))))
            raise
        os.write(writer, msgspec.json.encode(_Answer(lack_of_names=lack_of_names)))
        os.close(writer)
        gateway.serve()
    except BaseException:  # forked: must not return into the command's stack
        log.exception("the gateway ends")
    finally:
        os._exit(0)


def _prepare_process(files: LabFiles, lab: RunningLab, kept: set[int]) -> None:
    os.setsid()
    os.chdir("/")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # O_NOFOLLOW: the directory belongs to the lab, which could have put a link there.
    output = os.open(files.log("gateway"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2 and int(entry) not in kept:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(entry))
    syscalls.set_process_name("bridgehead-gate", f"bridgehead-gateway {lab.config.name}")


class _Gateway:
    """The gateway in this process. `end` is readable when the lab has ended. Raises OSError and `LabError`."""

    def __init__(self, plan: GatewayPlan, lab: RunningLab, id_map: IdMap | None, end: int) -> None:
        self._plan = plan
        self._end = end
        self._changes = NetlinkSocket(socket.NETLINK_ROUTE, _ROUTE_CHANGES)  # before the first look
        self._namespaces = building.make_namespaces(lab.init_pid, id_map)
        self._known: dict[Version, list[Network]] = {}
        self._user_mode: UserModeNetwork | None = None
        self._backoff = restart_backoff()
        self._began = 0.0  # monotonic, as the next one: the last start of user-mode networking, and the next one
        self._due: float | None = None
        self._is_stale = False  # the packet filter may lack addresses of the machine
        self._cluster_dns = [ranges.cluster_dns for ranges in plan.ranges]

    def build(self) -> str:
        """Build everything; return why the machine does not resolve the lab's names, or ""."""
        self._known = own_networks(machine_routes())
        building.build_gateway(self._namespaces, self._plan, render_ruleset(self._plan, self._known))
        building.connect_lab(self._namespaces, self._plan)
        lack_of_names = ""
        if self._plan.link:
            building.build_host_routes(self._namespaces, self._plan)
            lack_of_names = register_names(self._plan.link, self._cluster_dns)
        if self._plan.outside:
            self._start_user_mode()
        return lack_of_names

    def serve(self) -> None:
        """Keep the gateway until the lab ends."""
        while True:
            running = self._user_mode.pidfd if self._user_mode else None
            wait = None if self._due is None else max(0.0, self._due - time.monotonic())
            if self._is_stale:
                wait = _REPEAT_SECONDS if wait is None else min(wait, _REPEAT_SECONDS)
            descriptors = [self._end, self._changes.fileno(), *([running] if running is not None else [])]
            readable = select.select(descriptors, [], [], wait)[0]
            if self._end in readable:
                break
            if self._changes.fileno() in readable or self._is_stale:
                self._follow_machine()
            if running in readable:
                self._record_end()
            if self._due is not None and self._due <= time.monotonic():
                self._restart()
        if self._user_mode is not None:
            self._user_mode.close()
        if self._plan.link:
            with contextlib.suppress(OSError):  # the kernel removes the link with this process
                building.remove_host_routes(self._plan)

    def _follow_machine(self) -> None:
        """Refuse connections to addresses that the machine has got."""
        with contextlib.suppress(OSError):  # lost notifications are no harm: everything is looked at
            for _ in self._changes.notifications():
                pass
        try:
            found = own_networks(machine_routes())
            if found != self._known:
                building.replace_rules(self._namespaces, render_machine_sets(found))
                self._known = found
            self._is_stale = False
        except (OSError, LabError) as error:
            if not self._is_stale:
                log.warning("the machine's new addresses are unknown, and are looked for again: %s", error)
            self._is_stale = True

    def _start_user_mode(self) -> None:
        has_ipv6 = any(ranges.version == 6 for ranges in self._plan.ranges)
        program = UserModeNetwork(self._namespaces.gateway, self._namespaces.user, has_ipv6=has_ipv6)
        try:
            building.build_outside(self._namespaces, self._plan)
        except OSError:
            program.close()
            raise
        self._user_mode, self._began = program, time.monotonic()

    def _record_end(self) -> None:
        if self._user_mode is not None:
            code, self._user_mode = self._user_mode.close(), None
            delay = restart_delay(self._backoff, time.monotonic() - self._began)
            log.warning("%s ended with code %d, and is started again in %.1f s", PROGRAM, code, delay)
            self._due = time.monotonic() + delay

    def _restart(self) -> None:
        try:
            self._start_user_mode()
        except OSError as error:
            log.warning("%s", error)
            self._due = time.monotonic() + self._backoff.next()
        else:
            self._due = None
