"""Names of a cluster, resolved as in a pod of the namespace `default`, by the cluster's DNS alone."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Final

from bridgehead.insight.trace.dns_queries import Questions, ask_names
from bridgehead.insight.trace.name_resolution import NOERROR, NXDOMAIN, candidate_names
from bridgehead.kubelet.node.resolv_conf import Resolver

_NDOTS: Final = "ndots:5"  # as in pods
_SECONDS: Final = 2.0  # for each name


class Unresolved(Exception):
    """A host without an address in the cluster. The text is the reason."""


class Names:
    def __init__(self, server: str, domain: str) -> None:
        """`server`: the address of the cluster's DNS; `domain`: the cluster's, for example `cluster.local`."""
        self._server = server
        searches = (f"default.svc.{domain}", f"svc.{domain}", domain)
        self._resolver = Resolver(nameservers=(server,), searches=searches, options=(_NDOTS,))

    async def resolve(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a name or of an address itself. Raises Unresolved.

        This machine's own names and addresses are none of the cluster's: `localhost` there is not what a user means.
        """
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return await self._ask(host)
        if address.is_loopback or address.is_unspecified:
            raise Unresolved(f"{host} is this machine itself; the tunnel leads to addresses of the lab")
        return (str(address),)

    async def _ask(self, host: str) -> tuple[str, ...]:
        if host.rstrip(".").lower() == "localhost":
            raise Unresolved("localhost is this machine itself; the tunnel leads to names of the lab")
        names = candidate_names(host.lower(), self._resolver)
        if not names:
            raise Unresolved(f"{host[:255]!r} is not a name")
        questions = Questions(server=self._server, names=names, seconds=_SECONDS)
        answers = (await asyncio.to_thread(ask_names, questions)).answers
        if answers and answers[-1].addresses:
            return answers[-1].addresses
        if any(answer.rcode not in (NOERROR, NXDOMAIN) for answer in answers):
            raise Unresolved(f"the lab's DNS, {self._server}, does not answer for {host}: {answers[-1].rcode}")
        raise Unresolved(f"the lab has no name {host}; names outside of the lab do not exist there")
