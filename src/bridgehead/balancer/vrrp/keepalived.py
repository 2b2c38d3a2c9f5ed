"""keepalived's configuration file and its notifications as text. Source: keepalived 2.2, keepalived.conf(5).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

from bridgehead.balancer.ranges import IpAddress

from .address_groups import OWNER_PRIORITY, Group

ADVERTISEMENT_SECONDS = 0.1  # a master that is gone is missed after three to four of these
_RARE_SECONDS = 1.0
_PREEMPT_SECONDS = 0.1  # by which a node waits longer than the one before it when a master has a lower priority
_LONGEST_PREEMPT_SECONDS = 0.5
_REFRESH_SECONDS = 30
_IDENTITIES = (ipaddress.ip_network("169.254.254.0/24"), ipaddress.ip_network("fe80::5afe:0/120"))
_NOTIFICATION = re.compile(r'INSTANCE "([^"]+)" ([A-Z_]+) \d+')
_MASTER_STATES = frozenset({"MASTER", "MASTER_RX_LOWER_PRI", "MASTER_PRIORITY"})
_OTHER_STATES = frozenset({"BACKUP", "BACKUP_PRIORITY", "FAULT", "STOP", "DELETED"})


class Instance(NamedTuple):
    """A group on this node. `link`: the interface's name. `has_ipv4`: whether it has an IPv4 address.

    `is_resigned`: this node is the master, but receives no other node, which may be the master by now. It advertises
    rarely, since a master answers each advertisement of a lower priority by announcing its addresses. A node that is
    not the master does not do so: its interval is also the measure of how long it waits for one.
    """

    group: Group
    link: str
    has_ipv4: bool
    is_resigned: bool = False


def render_configuration(instances: Sequence[Instance], fifo: str, user: str, *, is_alone: bool = False) -> str:
    """Return the configuration file. Notifications are written to `fifo`.

    `is_alone`: this node receives no other one, which may be the master by now, so it does not announce its addresses
    now and then.

    The Services' addresses are not in the advertisements, which have place for few of them, and which a node ignores if
    they list other addresses than its own configuration: nodes learn of a new Service one after the other. Since
    keepalived demands one advertised address, each group has one of the link's own (RFC 3927, RFC 4291).
    """
    lines = [
        "global_defs {",
        "    vrrp_version 3",
        f"    vrrp_notify_fifo {fifo}",
        "    fifo_write_vrrp_states_on_reload",
        "    vrrp_garp_master_delay 1",
        "    vrrp_garp_master_repeat 2",
        f"    vrrp_garp_master_refresh {0 if is_alone else _REFRESH_SECONDS}",
        # After a heal of the network with two masters, the one that gives up makes the other one announce the addresses
        # again: hosts may remember the one that gives up.
        "    vrrp_higher_prio_send_advert true",
        "    vrrp_garp_lower_prio_repeat 2",
        "    vrrp_garp_lower_prio_delay 1",
        "    max_auto_priority -1",
        f"    script_user {user}",
        "}",
    ]
    for instance in sorted(instances, key=lambda instance: instance.group.key.name):
        group = instance.group
        lines += [
            f"vrrp_instance {group.key.name} {{",
            f"    state {'MASTER' if group.priority == OWNER_PRIORITY else 'BACKUP'}",
            f"    interface {instance.link}",
            f"    virtual_router_id {group.router_id}",
            f"    priority {group.priority}",
            *_preempt_delay(group.rank),
            f"    advert_int {_RARE_SECONDS if instance.is_resigned else ADVERTISEMENT_SECONDS}",
            "    virtual_ipaddress {",
            f"        {identity_address(group.router_id, instance.has_ipv4)} dev {instance.link} scope link",
            "    }",
            "    virtual_ipaddress_excluded {",
            *(f"        {address}/{address.max_prefixlen} dev {instance.link}" for address in group.addresses),
            "    }",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _preempt_delay(rank: int) -> list[str]:
    """Return how long a node waits when a master lowers its priority, since it leaves: the next node takes over.

    Without that, their timers end at the same moment, and the wrong one may be the master for an instant, in which
    connections begin that the right one does not know.
    """
    seconds = min((rank - 1) * _PREEMPT_SECONDS, _LONGEST_PREEMPT_SECONDS)
    return [f"    preempt_delay {seconds:.1f}"] if rank > 1 else []


def identity_address(router_id: int, has_ipv4: bool) -> str:
    """Return the advertised address of a virtual router, whose family is that of the advertisements."""
    return f"169.254.254.{router_id}/32" if has_ipv4 else f"fe80::5afe:{router_id:x}/128"


def is_identity(address: IpAddress) -> bool:
    """Return whether `identity_address` returns such an address."""
    return any(address in network for network in _IDENTITIES if network.version == address.version)


def parse_notification(line: str) -> tuple[str, bool] | None:
    """Return a group's name and whether this node is its master now; None for other lines."""
    found = _NOTIFICATION.fullmatch(line.strip())
    if found is None or found[2] not in _MASTER_STATES | _OTHER_STATES:
        return None
    return found[1], found[2] in _MASTER_STATES
