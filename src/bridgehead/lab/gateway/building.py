"""The gateway's network namespace, and its links and routes: its own, the lab's and the machine's.

No pod has rights over the gateway: its network namespace belongs to another user namespace than the lab's, which pods
with privileges are root of. Root's gateway is built with root's rights; that of an ordinary user by root of the user
namespace above the lab's. Everything is done by forked children, because it changes the namespaces of its process.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable
from typing import Final, NamedTuple

from bridgehead.lab import preflight, user_namespace
from bridgehead.lab.child_calls import call_in_child
from bridgehead.lab.enter import open_user_namespace
from bridgehead.lab.fabric import BRIDGE
from bridgehead.lab.ids import IdMap
from bridgehead.network import syscalls
from bridgehead.network.links import Links, write_sysctl
from bridgehead.network.uapi.rtnetlink import RT_TABLE_MAIN

from .addressing import (
    GATEWAY_LINK,
    LAB_LINK,
    LAB_PAIRS,
    MACHINE_LINK,
    OUTSIDE,
    OUTSIDE_LINK,
    GatewayPlan,
    networks_of,
)

_TABLE: Final = 100  # the lab's routing table for packets from its nodes
_SECONDS: Final = 10  # of `nft`


class Namespaces(NamedTuple):
    """Descriptors of namespaces. `user`: the gateway's user namespace; None: the machine's own."""

    user: int | None
    lab: int
    gateway: int


def make_namespaces(init_pid: int, id_map: IdMap | None) -> Namespaces:
    """Make the gateway's namespaces. `init_pid` is the lab's first process. Raises OSError."""
    process = f"/proc/{init_pid}"
    lab = os.open(f"{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    user: int | None = None
    if not user_namespace.is_full_root():
        user = open_user_namespace(f"{process}/ns/user")
    elif id_map is not None:
        user = user_namespace.make(id_map)
    return Namespaces(user, lab, _make_network(user))


def _make_network(user: int | None) -> int:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    asleep, wake = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(wake)
            if user is not None:
                user_namespace.enter(user)
            syscalls.unshare(syscalls.CLONE_NEWNET)
            os.write(writer, b"!")
            os.read(asleep, 1)
        except BaseException as error:  # noqa: BLE001 - forked: must not return into the parent's stack
            os.write(writer, str(error).encode()[:4096])
        finally:
            os._exit(0)
    os.close(writer)
    os.close(asleep)
    try:
        answer = os.read(reader, 4096)
        if answer != b"!":
            raise OSError(f"cannot make the gateway's network namespace: {answer.decode(errors='replace')}")
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(wake)
        os.close(reader)
        os.waitpid(pid, 0)


def build_gateway(namespaces: Namespaces, plan: GatewayPlan, ruleset: str) -> None:
    """Build the gateway with its packet filter, and its link to the lab. Raises OSError."""
    _run_in(namespaces, namespaces.gateway, functools.partial(_build_gateway, namespaces, plan, ruleset))
    _run_in(namespaces, namespaces.lab, functools.partial(_build_lab_end, plan))


def _build_gateway(namespaces: Namespaces, plan: GatewayPlan, ruleset: str) -> None:
    load_ruleset(ruleset)  # first, so that no packet passes before
    for ranges in plan.ranges:
        if ranges.version == 4:
            write_sysctl("net/ipv4/ip_forward", 1)
        else:
            write_sysctl("net/ipv6/conf/all/disable_ipv6", 0)
            write_sysctl("net/ipv6/conf/default/disable_ipv6", 0)
            write_sysctl("net/ipv6/conf/all/forwarding", 1)
            write_sysctl("net/ipv6/conf/default/accept_dad", 0)  # both ends are ours
            write_sysctl("net/ipv6/conf/default/accept_ra", 0)
    with Links() as links:
        links.set_up("lo")
        links.add_veth(LAB_LINK, peer=GATEWAY_LINK, peer_namespace=namespaces.lab)
        for ranges in plan.ranges:
            pair = LAB_PAIRS[ranges.version]
            links.add_address(LAB_LINK, pair.near_interface)


def _build_lab_end(plan: GatewayPlan) -> None:
    if any(ranges.version == 6 for ranges in plan.ranges):
        # Neighbour discovery needs a link-local address.
        write_sysctl(f"net/ipv6/conf/{GATEWAY_LINK}/addr_gen_mode", 0)
    with Links() as links:
        links.set_up(GATEWAY_LINK)
        for ranges in plan.ranges:
            pair = LAB_PAIRS[ranges.version]
            links.add_address(GATEWAY_LINK, pair.far_interface)
        for ranges, machine in zip(plan.ranges, plan.pairs, strict=False):
            for table in (RT_TABLE_MAIN, _TABLE):
                links.add_route(str(machine.network), via=LAB_PAIRS[ranges.version].near, table=table)
        if plan.outside:
            for ranges in plan.ranges:
                # The lab decides about its own ranges, and refuses what it has no route to.
                for network in networks_of(ranges):
                    links.add_throw_route(network, _TABLE)
                for table in (RT_TABLE_MAIN, _TABLE):
                    links.add_route("default", via=LAB_PAIRS[ranges.version].near, table=table)
        for ranges in plan.ranges:
            links.route_by_table(BRIDGE, _TABLE, ranges.version)


def connect_lab(namespaces: Namespaces, plan: GatewayPlan) -> None:
    """Give the gateway its routes to the lab, whose end of the link is up. Raises OSError."""
    _run_in(namespaces, namespaces.gateway, functools.partial(_add_lab_routes, plan))


def _add_lab_routes(plan: GatewayPlan) -> None:
    with Links() as links:
        for ranges in plan.ranges:
            for network in networks_of(ranges):
                links.add_route(network, via=LAB_PAIRS[ranges.version].far)


def build_host_routes(namespaces: Namespaces, plan: GatewayPlan) -> None:
    """Give the machine, whose namespaces the caller is in, a link to the gateway and routes through it. Raises OSError.

    The kernel removes them with the gateway's network namespace.
    """
    with Links() as machine:
        machine.add_veth(plan.link, peer=MACHINE_LINK, peer_namespace=namespaces.gateway)
        _run_in(namespaces, namespaces.gateway, functools.partial(_build_machine_end, plan))
        for pair in plan.pairs:
            machine.add_address(plan.link, pair.near_interface)
        for ranges, pair in zip(plan.ranges, plan.pairs, strict=True):
            for network in networks_of(ranges):
                try:
                    machine.add_route(network, via=pair.far, replaces=False)
                except FileExistsError:  # another lab's, or that of a VPN, since the plan was made
                    raise OSError(f"this machine has got another route to {network} meanwhile") from None


def _build_machine_end(plan: GatewayPlan) -> None:
    with Links() as links:
        links.set_up(MACHINE_LINK)
        for pair in plan.pairs:
            links.add_address(MACHINE_LINK, pair.far_interface)


def remove_host_routes(plan: GatewayPlan) -> None:
    """Remove the machine's link with its addresses and routes, at once. Raises OSError."""
    with Links() as machine:
        machine.remove(plan.link)


def build_outside(namespaces: Namespaces, plan: GatewayPlan) -> None:
    """Set up the link that user-mode networking has made in the gateway. Raises OSError."""
    _run_in(namespaces, namespaces.gateway, functools.partial(_build_outside, plan))


def _build_outside(plan: GatewayPlan) -> None:
    with Links() as links:
        links.set_up(OUTSIDE_LINK)
        for ranges in plan.ranges:
            addresses = OUTSIDE[ranges.version]
            links.add_address(OUTSIDE_LINK, addresses.own_interface)
            links.add_route("default", via=addresses.router)


def replace_rules(namespaces: Namespaces, transaction: str) -> None:
    """Run a transaction of nft in the gateway. Raises OSError."""
    _run_in(namespaces, namespaces.gateway, functools.partial(load_ruleset, transaction))


def load_ruleset(text: str) -> None:
    """Run a transaction of nft in the current network namespace. Raises OSError."""
    try:
        subprocess.run(
            [preflight.find_system_program("nft") or "nft", "-f", "-"],
            input=text.encode(),
            capture_output=True,
            check=True,
            timeout=_SECONDS,
            env={"PATH": preflight.system_path()},
        )
    except subprocess.CalledProcessError as error:
        raise OSError(f"nft refuses the gateway's rules: {preflight.first_line(error.stderr)}") from error
    except subprocess.TimeoutExpired:
        raise OSError(f"nft does not answer within {_SECONDS} s") from None


def _run_in(namespaces: Namespaces, network: int, work: Callable[[], None]) -> None:
    """Run `work` in a child in that network namespace, with rights over the gateway and the lab. Raises OSError."""

    def enter_and_work() -> None:
        if not user_namespace.is_full_root() and namespaces.user is not None:
            user_namespace.enter(namespaces.user)
        syscalls.setns(network, syscalls.CLONE_NEWNET)
        work()

    call_in_child(enter_and_work)
