"""Sentences about a lab's gateway, for users.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.lab.plan import CLUSTER_DOMAIN, LabConfig

from .addressing import GatewayPlan, name_link, networks_of


def describe_gateway(plan: GatewayPlan, cluster_dns: str, lack_of_names: str, command: str) -> Iterator[str]:
    """Yield a line for each of the gateway's purposes, for the end of `up`.

    `lack_of_names`: why the machine does not resolve the lab's names, or "". `command`: that of this program.
    """
    if plan.link:
        networks = ", ".join(network for ranges in plan.ranges for network in networks_of(ranges))
        names = f"systemd-resolved knows the names below {CLUSTER_DOMAIN}"
        if lack_of_names:
            names = (
                f"names of the lab are not resolved here ({lack_of_names}), only by `dig @{cluster_dns}` and"
                f" `{command} tunnel`"
            )
        yield f"This machine has routes to {networks} through {plan.link}; {names}."
    if plan.outside:
        yield "Pods reach what this machine reaches, but not the machine itself."


def describe_state(config: LabConfig, *, is_running: bool) -> Iterator[str]:
    """Yield a line for each of the gateway's purposes, for `status`."""
    ended = "" if is_running else ", but the lab's gateway has ended: `down` and `up` start it again"
    if config.host_routes:
        yield f"This machine has routes to the lab through {name_link(config.name)}{ended}."
    if config.outside:
        yield f"Pods reach what this machine reaches, but not the machine itself{ended}."
