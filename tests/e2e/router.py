"""A BGP router beside the lab's nodes: BIRD in the lab's own namespace, at 10.0.0.1, which is also the client."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator

from tests.integration import bird_router

from .conftest import PATIENCE, Lab, eventually, running

ROUTER_ASN = 64513
NODES_ASN = 64512


@contextlib.contextmanager
def bird(lab: Lab, nodes: int) -> Iterator[None]:
    """Run BIRD with a session, protected by BFD, for each of the first `nodes` nodes.

    Its routes go to the kernel, and leave it at the end.
    """
    sessions = "".join(bird_router.bgp(number, "bfd;", NODES_ASN) for number in range(1, nodes + 1))
    configuration = lab.state_dir / "bird.conf"
    configuration.write_text(bird_router.COMMON + bird_router.KERNEL + bird_router.BFD + sessions)
    control, log = lab.state_dir / "bird.ctl", lab.state_dir / "bird.log"
    argv = lab.argv_inside("bird", "-f", "-c", configuration, "-s", control)
    with log.open("w") as output, running(*argv, stdout=output, stderr=output) as process:
        eventually(lambda: control.exists() or process.poll() is not None, message="BIRD did not start")
        assert process.poll() is None, log.read_text()
        yield
        process.terminate()  # it takes its routes away only if it ends by itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def next_hops(lab: Lab, address: str) -> list[str]:
    """Return the next hops of the route to an address in the router's kernel, sorted; empty without a route."""
    routes = json.loads(lab.inside("ip", "-json", "route", "show", address).stdout or "[]")
    return sorted(hop["gateway"] for route in routes for hop in route.get("nexthops", [route]))
