"""Resolves a name in the origin's namespace: by questions to its name server, elsewhere by programs of the image."""

from __future__ import annotations

from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.facts.system_object_names import DNS_SERVICE
from bridgehead.insight.network_namespaces import NetworkNamespace, NotEntered
from bridgehead.kubelet.node.resolv_conf import Resolver, parse_resolver
from bridgehead.objects.core import Pod

from .capture import CALL_SECONDS, PROGRAM_SECONDS, only_programs
from .dns_queries import Questions, ask_names
from .name_resolution import DnsAnswer, candidate_names, expected_resolver
from .program_probes import NO_SUCH_PROGRAM, question_commands, read_answer

_MOST_RESOLVER_BYTES = 65536


async def find_resolver(origin: NetworkNamespace | None, pod: Pod | None, state: ClusterState) -> Resolver:
    """Return the origin's resolver: its resolv.conf, if a program there can print it, else as the kubelet writes it.

    Programs of a node do not ask the cluster's DNS by themselves; this resolver does, without a search list.
    """
    if origin is not None and await only_programs(origin):
        try:
            done = await origin.run(("cat", "/etc/resolv.conf"), seconds=PROGRAM_SECONDS)
        except NotEntered:
            done = None
        if done is not None and done.code == 0:
            return parse_resolver(done.stdout[:_MOST_RESOLVER_BYTES].decode(errors="replace"))
    found = expected_resolver(pod, state, Resolver())
    if found.nameservers:
        return found
    service = state.services.get(DNS_SERVICE)
    servers = (service.spec.cluster_ip,) if service is not None and service.spec.cluster_ip else ()
    return Resolver(nameservers=servers, searches=found.searches, options=found.options)


async def ask(origin: NetworkNamespace | None, name: str, resolver: Resolver) -> tuple[tuple[DnsAnswer, ...], str]:
    """Return the real answers, and why there are none."""
    if origin is None:
        return (), "the origin could not be entered"
    if await only_programs(origin):
        return await _ask_by_programs(origin, name)
    names = candidate_names(name, resolver)
    if not resolver.nameservers or not names:
        return (), "there is no name server"
    questions = Questions(server=resolver.nameservers[0], names=names)
    try:
        asked = await origin.call(ask_names, questions, seconds=CALL_SECONDS)
    except NotEntered as error:
        return (), str(error)
    return asked.answers, ""


async def _ask_by_programs(origin: NetworkNamespace, name: str) -> tuple[tuple[DnsAnswer, ...], str]:
    why = "the image has neither getent nor nslookup"
    for argv in question_commands(name):
        try:
            done = await origin.run(argv, seconds=PROGRAM_SECONDS)
        except NotEntered as error:
            why = str(error)
            continue
        if done.code not in NO_SUCH_PROGRAM:
            return (read_answer(argv, done, name),), ""
    return (), why
