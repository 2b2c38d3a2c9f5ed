"""The plan of a lab's gateway, or why there can be none: this machine's links, routes, name servers and programs.

Reads only: `up` plans the gateway before it changes anything.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bridgehead.kubelet.node.resolv_conf import parse_resolver
from bridgehead.lab import preflight, user_namespace
from bridgehead.lab.addressing import Ranges
from bridgehead.lab.errors import LabError, Unsupported
from bridgehead.lab.ids import IdMap
from bridgehead.lab.packages import how_to_install
from bridgehead.lab.plan import LabConfig
from bridgehead.network.rtnetlink_listing import RouteRecord, list_links, list_routes

from .addressing import LINK_LOCAL4, OUTSIDE, OWN_PREFIX6, GatewayPlan, choose_pairs, name_link, networks_of
from .clashes import find_clash, taken_networks
from .user_mode import PROGRAM

_MOST_ROUTES: Final = 50_000
_RESOLV_CONF: Final = Path("/etc/resolv.conf")
_TUN: Final = "/dev/net/tun"


def plan_gateway(config: LabConfig, id_map: IdMap | None) -> GatewayPlan | None:
    """Return the plan of the lab's gateway, None if it needs none. Raises `LabError` with the reason why there can be
    none.

    `id_map` is that of the lab's user namespace.
    """
    if not config.host_routes and not config.outside:
        return None
    families = tuple(ranges for ranges in config.ranges if ranges.version == 4 or _has_ipv6())
    if not families:
        raise Unsupported(
            "the lab has only IPv6, which is disabled on this machine: --host-routes and --outside need it"
        )
    _check_ranges(families, is_outside=config.outside)
    if config.outside:
        _check_outside(id_map)
    if not config.host_routes:
        return GatewayPlan(families, outside=config.outside)
    return _plan_host_routes(config, families)


def _check_ranges(families: Iterable[Ranges], *, is_outside: bool) -> None:
    """Raise `LabError` if the lab has addresses that the gateway's own links need."""
    own = [LINK_LOCAL4, OWN_PREFIX6, *((OUTSIDE[6].network,) if is_outside else ())]
    for ranges in families:
        for text in networks_of(ranges):
            network = ipaddress.ip_network(text)
            for each in map(ipaddress.ip_network, own):
                if network.version == each.version and network.overlaps(each):
                    raise LabError(
                        f"the lab's range {text} overlaps {each}, which --host-routes and --outside use themselves"
                    )


def _plan_host_routes(config: LabConfig, families: tuple[Ranges, ...]) -> GatewayPlan:
    if not user_namespace.is_full_root():
        raise LabError(
            "--host-routes changes the machine's routes, and only root may do that: `sudo bridgehead up --host-routes`;"
            " `bridgehead open` and `bridgehead tunnel` need no rights"
        )
    link = name_link(config.name)
    links, routes = list_links(), machine_routes()
    if any(each.name == link for each in links):
        raise LabError(
            f"--host-routes needs the link {link}, and this machine has one of that name: another lab's, or"
            " `ip link delete` removes it; a lab with another --name has another link"
        )
    clash = find_clash(families, links, routes, _name_servers())
    if clash:
        raise LabError(f"--host-routes is impossible: {clash} for a new lab")
    pairs = choose_pairs(config.name, [ranges.version for ranges in families], taken_networks(links, routes))
    if pairs is None:
        raise LabError("--host-routes needs four free addresses of 169.254.192.0/18, and this machine uses them all")
    return GatewayPlan(families, outside=config.outside, link=link, pairs=pairs)


def _check_outside(id_map: IdMap | None) -> None:
    if preflight.find_system_program(PROGRAM) is None:
        raise Unsupported(f"--outside needs the command `{PROGRAM}`: {how_to_install(PROGRAM)}")
    try:
        mode = os.stat(_TUN).st_mode
    except OSError:
        raise Unsupported(f"--outside needs {_TUN}: as root, `modprobe tun`; in Docker, --device {_TUN}") from None
    # Root's lab has the program run as an id of the lab, which is no user of the machine.
    needed = stat.S_IROTH | stat.S_IWOTH
    is_open = (
        mode & needed == needed if user_namespace.is_full_root() and id_map else os.access(_TUN, os.R_OK | os.W_OK)
    )
    if not is_open:
        raise Unsupported(
            f"--outside needs {_TUN}, which is closed to ordinary users here (mode {stat.S_IMODE(mode):o}): as root,"
            f" `chmod 666 {_TUN}`, the mode that udev gives it"
        )


def machine_routes() -> list[RouteRecord]:
    """Return the machine's routes. Raises `LabError` if there are too many to compare with the lab's."""
    try:
        routes, has_more = list_routes(_MOST_ROUTES)
    except OSError as error:
        raise LabError(f"cannot list this machine's routes: {error.strerror}") from error
    if has_more:
        raise LabError(f"this machine has more than {_MOST_ROUTES} routes, too many to compare with the lab's")
    return routes


def _name_servers() -> list[str]:
    try:
        found = parse_resolver(_RESOLV_CONF.read_text("utf-8", errors="replace")).nameservers
    except OSError:
        return []
    return [text.partition("%")[0] for text in found if _is_address(text.partition("%")[0])]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _has_ipv6() -> bool:
    try:
        # Of links that come later, as the one to the lab.
        text = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").read_text("ascii")
    except OSError:
        return False
    return text.strip() == "0"
