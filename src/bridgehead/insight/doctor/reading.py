"""Gathers the facts of a cluster, from its API and from the network namespaces of some pods, and diagnoses them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from bridgehead.client import ApiClient, ClientConfig
from bridgehead.client.errors import ClientError
from bridgehead.client.tls import client_context
from bridgehead.insight.facts.cluster_reading import read_cluster
from bridgehead.insight.facts.network_reading import read_network
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.facts.system_object_names import SYSTEM
from bridgehead.insight.findings import Unseen, printable
from bridgehead.insight.network_namespaces import NetworkNamespaces, NotEntered
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey

from .catalogue import family_of
from .diagnosis import Diagnosis, confirmed, diagnose, needs_confirmation
from .node_reading import NodesSeen, ask_from_pod, read_nodes, read_resolvers
from .subjects import CertificateEnd, Facts, ServiceView, Target

MOST_PODS: Final = 50  # whose listeners are read, of the whole cluster
_MOST_PODS_OF_TARGET: Final = 10
_AT_ONCE: Final = 8
_POD_SECONDS: Final = 5.0
_ALL_PODS_SECONDS: Final = 8.0
_TLS_SECONDS: Final = 2.0
CONFIRM_SECONDS: Final = 1.0  # before the reading that confirms passing causes


async def examine(
    client: ApiClient,
    namespaces: NetworkNamespaces | None,
    targets: Sequence[Target] = (),
    namespace: str = "",
) -> Diagnosis:
    """Diagnose the Services in `targets`, which are of one namespace, or all of `namespace` ("": of the cluster).

    Without `namespaces` no pod is looked at. Raises Unreachable and Unauthorized, as `read_cluster` does.
    """
    reading_nodes = asyncio.create_task(_read_nodes(client, namespaces))
    try:
        facts, certificates = await asyncio.gather(
            read_facts(client, targets, namespace), read_certificates(client.config) if not targets else _nothing()
        )
        facts = replace(facts, certificates=certificates)
        if namespaces is not None:
            (listeners, unseen), answers, resolvers = await asyncio.gather(
                read_listeners(namespaces, choose_pods(facts, diagnose(facts))),
                ask_from_pod(namespaces, facts),
                read_resolvers(client, facts),
            )
            facts = replace(facts, pod_listeners=listeners, dns_answers=answers, resolvers=resolvers, unseen=unseen)
        nodes = await reading_nodes
    finally:
        reading_nodes.cancel()
    facts = replace(
        facts,
        networks=nodes.networks,
        dns_answers=(*nodes.answers, *facts.dns_answers),
        hairpin_off=nodes.hairpin_off,
        unseen=(*facts.unseen, *nodes.unseen),
    )
    first = diagnose(facts)
    if not needs_confirmation(first):
        return first
    await asyncio.sleep(CONFIRM_SECONDS)
    again, nodes = await asyncio.gather(read_facts(client, targets, namespace), _read_nodes(client, namespaces))
    second = replace(facts, cluster=again.cluster, networks=nodes.networks)
    return confirmed(first, diagnose(second))


async def _read_nodes(client: ApiClient, namespaces: NetworkNamespaces | None) -> NodesSeen:
    return await read_nodes(client, namespaces) if namespaces is not None else NodesSeen({}, (), {}, ())


async def read_facts(client: ApiClient, targets: Sequence[Target], namespace: str) -> Facts:
    """Read the objects of the API. Raises Unreachable and Unauthorized."""
    if targets:
        namespace = targets[0].key.namespace
    names = {target.key.name for target in targets}
    return Facts(cluster=await read_cluster(client, namespace, names), targets=tuple(targets))


async def _nothing() -> tuple[CertificateEnd, ...]:
    """Stands for the certificates of a question about single Services, whose clients do not use them."""
    return ()


def choose_pods(facts: Facts, diagnosis: Diagnosis) -> list[Pod]:
    """Return the pods whose listeners may show a cause, in the order of their use.

    These are ready pods of Services that look healthy, one of each Service before the second of any, and pods that
    fail a probe; the system's own come last.
    """
    views = sorted(facts.views.items(), key=lambda item: item[0].namespace == SYSTEM)
    by_service = [
        _pods_of(view, diagnosis.services.get(str(key), ""))
        for key, view in views
        if not facts.targets or str(key) in diagnosis.services
    ]
    rounds = _MOST_PODS_OF_TARGET if facts.targets else max(map(len, by_service), default=0)
    chosen: dict[ObjectKey, Pod] = {}
    for index in range(rounds):
        for pods in by_service:
            if index < len(pods):
                chosen.setdefault(pods[index].key, pods[index])
    return list(chosen.values())


def _pods_of(view: ServiceView, cause: str) -> Sequence[Pod]:
    if view.is_external_name or not view.spec.selector:
        return ()
    if cause in ("ReadinessProbeFailing", "StartupProbeFailing"):
        return [pod for pod in view.live_pods if not pod.is_ready and pod.status.phase == "Running"][:1]
    if cause and family_of(cause) in ("pods", "selectors"):
        return ()
    return [pod for pod in view.ready_pods if pod.status.phase == "Running" and not pod.spec.host_network]


async def read_listeners(
    namespaces: NetworkNamespaces, pods: Sequence[Pod]
) -> tuple[dict[ObjectKey, NetworkState], tuple[Unseen, ...]]:
    """Read the listeners of at most `MOST_PODS` pods, some at once. Raises nothing."""
    found: dict[ObjectKey, NetworkState] = {}
    reasons: dict[str, list[ObjectKey]] = {}
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(key: ObjectKey) -> None:
        async with limit:
            try:
                namespace = await namespaces.pod(key)
            except NotEntered as error:
                reasons.setdefault(printable(str(error)), []).append(key)
                return
            state = await read_network(namespace, (Section.LISTENERS,), seconds=_POD_SECONDS)
        if reason := state.unseen.get(Section.LISTENERS):
            reasons.setdefault(printable(reason), []).append(key)
        else:
            found[key] = state

    chosen = [pod.key for pod in pods[:MOST_PODS]]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ALL_PODS_SECONDS), asyncio.TaskGroup() as group:
            for key in chosen:
                group.create_task(read(key))
    late = set(chosen) - found.keys() - {key for keys in reasons.values() for key in keys}
    if late:
        reasons[f"no answer within {_ALL_PODS_SECONDS:g} s"] = sorted(late)
    unseen = [Unseen(f"the programs of {_described(keys)}", reason) for reason, keys in sorted(reasons.items())]
    if len(pods) > MOST_PODS:
        unseen.append(Unseen(f"the programs of {len(pods) - MOST_PODS} more pods", f"only {MOST_PODS} are looked at"))
    return found, tuple(unseen)


def _described(keys: Sequence[ObjectKey]) -> str:
    return f"pod {keys[0]}" if len(keys) == 1 else f"{len(keys)} pods ({keys[0]}, ...)"


async def read_certificates(config: ClientConfig) -> tuple[CertificateEnd, ...]:
    """Return the ends of the API server's certificate and of the kubeconfig's.

    Certificates that cannot be read are missing.
    """
    found = []
    if config.client_certificate is not None:
        end = await asyncio.to_thread(_end_of, config.client_certificate)
        found += [CertificateEnd("the user in the kubeconfig", end)] if end is not None else []
    for url in map(urlsplit, config.servers):
        if url.scheme != "https" or not url.hostname or config.proxy_url:
            continue
        with contextlib.suppress(OSError, TimeoutError, ValueError, KeyError, ClientError):
            async with asyncio.timeout(_TLS_SECONDS):
                _, writer = await asyncio.open_connection(
                    url.hostname,
                    url.port or 443,
                    ssl=client_context(config),
                    server_hostname=config.tls_server_name or url.hostname,
                )
            certificate = writer.get_extra_info("peercert")
            writer.transport.abort()
            subject = "the API server" if not config.other_servers else f"the API server {url.netloc}"
            found.append(CertificateEnd(subject, ssl.cert_time_to_seconds(certificate["notAfter"])))
    return tuple(found)


def _end_of(pem: bytes) -> float | None:
    """Return the end of a certificate in epoch seconds; None for a damaged one. Imports a large library."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return None
