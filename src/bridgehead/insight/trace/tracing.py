"""Traces one connection: reads what the way consists of, makes the connection, follows it, and reports.

`trace` is the whole of it. All decisions are in modules without I/O; here, and in `connection.py`, are the reads, and
the treatment of parts that cannot be looked at.
"""

from __future__ import annotations

from bridgehead.client import ApiClient
from bridgehead.insight.facts.cluster_reading import read_cluster
from bridgehead.insight.network_namespaces import NetworkNamespace, NetworkNamespaces, NotEntered
from bridgehead.objects.meta import ObjectKey

from . import steps
from .connection import Connection
from .context import Context, Request
from .destination import NoDestination, PortMissing, find_destination, name_to_resolve, namespaces_of
from .name_lookup import ask, find_resolver
from .name_resolution import DnsAnswer, difference, expected_resolution
from .origins import choose_source
from .report import Report, State, Step
from .target import OriginKind, TargetKind
from .verdict import StepName

_DOMAIN = "cluster.local"


async def trace(client: ApiClient, namespaces: NetworkNamespaces, request: Request) -> Report:
    """Trace a connection. Raises NoOrigin and PortMissing, and the client's Unreachable and Unauthorized."""
    own = (request.origin.namespace if request.origin is not None else "") or request.namespace
    needed = {own, *namespaces_of(request.target, own, _DOMAIN)}
    state = await read_cluster(client, next(iter(needed)) if len(needed) == 1 else "")
    source = choose_source(request.origin, request.namespace, state)
    context = Context(state=state, namespaces=namespaces, request=request, source=source)
    origin = await _enter_origin(context)
    answers = await _resolve(context, origin)
    try:
        destination = find_destination(
            request.target, source.origin.kind, source.namespace, request.protocol, state, answers
        )
    except PortMissing:
        raise
    except NoDestination as error:
        step = StepName.NAME if answers else StepName.SERVICE
        if not answers:
            context.steps.append(Step(name=step, text=str(error), state=State.FAILED))
        elif context.steps[-1].state is State.UNKNOWN:
            return context.report(f"Not tried: {context.steps[-1].text}", works=None)
        return context.report(f"Dies at the step {step}: {error}", works=False)
    return await Connection(context, origin, destination).report()


async def _enter_origin(context: Context) -> NetworkNamespace | None:
    where = context.source.origin
    try:
        if where.kind is OriginKind.POD:
            return await context.namespaces.pod(ObjectKey(where.namespace, where.name))
        if where.kind is OriginKind.NODE:
            return await context.namespaces.node(where.name)
        return await context.namespaces.outside()
    except NotEntered as error:
        context.unseen[f"{where}: {error}"] = None
        return None


async def _resolve(context: Context, origin: NetworkNamespace | None) -> tuple[DnsAnswer, ...]:
    """Return the answers to the target's name, real ones if possible; () for a target that needs no name."""
    target, source = context.request.target, context.source
    name = name_to_resolve(target, source.namespace)
    if not name or (source.origin.kind is not OriginKind.POD and target.kind is TargetKind.SERVICE):
        return ()
    resolver = await find_resolver(origin, source.pod, context.state)
    expected = expected_resolution(name, resolver, context.state)
    asked, why_not = await ask(origin, name, resolver)
    differs = difference(expected, asked)
    if differs:
        context.differences.append(differs)
    context.steps.append(steps.name_step(name, resolver, expected, asked, differs, why_not))
    return asked or expected
