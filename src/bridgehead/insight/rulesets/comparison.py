"""The differences between the rules of a node and those that it should have.

Frontends are compared by their backends, not by the numbers or places of these, which depend on earlier changes. Of
this project's rules, fixed chains are compared as well.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from bridgehead.insight.expectations import Expectations, service_of
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.address_texts import AddressPort, is_loopback
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, Verdict
from bridgehead.proxy.iptables.chains import is_ours, jumps
from bridgehead.proxy.iptables.readback import as_printed
from bridgehead.proxy.iptables.render import Renderer as IptablesRenderer
from bridgehead.proxy.ipvs import chains as ipvs_chains
from bridgehead.proxy.nftables.chains import family_keyword
from bridgehead.proxy.nftables.render import Renderer as NftablesRenderer
from bridgehead.proxy.nftables.render import TableSpec
from bridgehead.proxy.userspace.redirects import TABLE, guards, is_carried, redirect, sides

from .entries import Entry, IpvsObjects, KernelFrontend, NodeRules, RulesMode
from .expected_frontends import destination_text
from .ipvs_comparison import find_alterations
from .rule_descriptions import rule_meaning

_OF_NFTABLES = (RulesMode.NFTABLES, RulesMode.KUBE_PROXY_NFTABLES)
_MOST = 1000  # differences that are reported
_MOST_NAMED = 5  # backends in a text


class Kind(enum.StrEnum):
    """The kind of a difference."""

    NO_RULES = "no rules"  # of the mode in use, or of a family
    MISSING_FRONTEND = "missing destination"
    FOREIGN_FRONTEND = "foreign destination"
    MISSING_BACKEND = "missing backend"
    FOREIGN_BACKEND = "foreign backend"
    OTHER_VERDICT = "other verdict"  # reject for drop, or the other way round
    CHAIN = "chain"  # rules were added, removed or changed
    VIRTUAL_SERVER = "virtual server"  # chooses backends in another way, or is missing on an address of the node
    SET_ELEMENT = "set element"  # of an IP set, missing or foreign
    ADDRESS = "address"  # of kube-ipvs0, missing or foreign
    OTHER_MODE = "other mode"  # rules of a mode that is not in use


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. `service`: `namespace/name:port`, "" if it concerns all. `text`: one sentence."""

    kind: Kind
    text: str
    service: str = ""
    frontend: FrontendKey | None = None
    evidence: tuple[str, ...] = ()


def compare(expected: Expectations, rules: NodeRules) -> list[Difference]:
    """Return the differences, at most 1000. [] if the kernel has what it should have."""
    mode = rules_mode(expected)
    if mode is None:
        return []
    if mode in _OF_NFTABLES and mode not in rules.frontends:  # whose proxy it is may be unknown
        mode = next((other for other in _OF_NFTABLES if other in rules.frontends), mode)
    found = [
        Difference(kind=Kind.OTHER_MODE, text=f"There are rules of mode {other}; the mode in use is {mode}.")
        for other in rules.modes
        if other is not mode and rules.frontends[other]
    ]
    served = rules.frontends.get(mode)
    if served is None:
        if any(True for _ in expected.table):
            found.append(Difference(kind=Kind.NO_RULES, text=f"There are no rules of mode {mode}."))
        return found
    unread = {str(key) for key in expected.unread}
    for frontend in expected.table:
        if str(service_of(frontend.owner)) not in unread:
            found += _compare_frontend(frontend, served.get(frontend.key), mode, expected)
    for key, present in served.items():
        if expected.table.get(key) is None:
            found.append(_foreign(key, present, rules))
        if len(found) > _MOST:
            break
    if expected.is_bridgehead and mode is not RulesMode.KUBE_PROXY_NFTABLES:
        named = {difference.service for difference in found}
        found += (one for one in _compare_chains(expected, rules, mode) if not one.service or one.service not in named)
    if mode is RulesMode.IPVS and rules.ipvs is not None:
        found += _compare_ipvs(expected, rules.ipvs, {difference.frontend for difference in found} - {None}, unread)
    return found[:_MOST]


def rules_mode(expected: Expectations) -> RulesMode | None:
    """Return the mode whose rules the node should have; None for a mode that does not exist."""
    if expected.mode == "nftables" and not expected.is_bridgehead:
        return RulesMode.KUBE_PROXY_NFTABLES
    try:
        return RulesMode(expected.mode)
    except ValueError:
        return None


# --- Frontends -----------------------------------------------------------------------------------------------


def _compare_frontend(
    frontend: Frontend, present: KernelFrontend | None, mode: RulesMode, expected: Expectations
) -> Iterator[Difference]:
    where = destination_text(frontend.key)
    if mode is RulesMode.IPVS and (is_loopback(frontend.key.address) or _has_no_address(frontend.key, expected)):
        return
    lists = _wanted_lists(frontend, mode)
    if present is None:
        # Without backends, modes need no line of its own: unused ports of a cluster IP are rejected anyway.
        if lists[0] or lists[1] or mode in (RulesMode.NFTABLES, RulesMode.USERSPACE):
            yield _of(frontend, Kind.MISSING_FRONTEND, f"Nothing serves {where} of {frontend.owner}.")
        return
    if frontend.source_ranges == ():
        return  # nobody may use it, so no backend is reachable
    if mode is RulesMode.USERSPACE:
        yield from _compare_listeners(frontend, present)
        return
    for wanted, has, clients in (
        (lists[0], present.backends, ""),
        (lists[1], present.cluster_backends, " for clients in the cluster"),
    ):
        if wanted is None or (has is None and not clients):
            continue
        if has is None:  # they use the backends of all clients
            has = present.backends
        missing, foreign = wanted - set(has), set(has) - wanted
        if missing:
            text = f"{where} of {frontend.owner} lacks {_backends(missing)}{clients}."
            yield _of(frontend, Kind.MISSING_BACKEND, text)
        if foreign:
            text = f"{where} of {frontend.owner} also leads to {_backends(foreign)}{clients}."
            yield _of(frontend, Kind.FOREIGN_BACKEND, text)
    verdict = "drop" if frontend.when_empty is Verdict.DROP else "reject"
    if not lists[0] and present.verdict and present.verdict != verdict:
        yield _of(frontend, Kind.OTHER_VERDICT, f"{where} of {frontend.owner}: {present.verdict}, not {verdict}.")


def _wanted_lists(frontend: Frontend, mode: RulesMode) -> tuple[set[AddressPort], set[AddressPort] | None]:
    cluster = frontend.cluster_backends
    lists = _addresses(frontend.backends), _addresses(cluster) if cluster is not None else None
    if mode is RulesMode.USERSPACE and not is_carried(frontend.key):
        return set(), None
    if cluster is not None and mode is not RulesMode.NFTABLES and (lists[0] == lists[1] or not cluster):
        return lists[0], None  # the same for everybody: no rules of their own are needed
    return lists


def _addresses(backends: Iterable[Backend]) -> set[AddressPort]:
    return {(one.address, one.port) for one in backends}


def _compare_listeners(frontend: Frontend, present: KernelFrontend) -> Iterator[Difference]:
    wanted = {side.for_cluster_clients for side in sides(frontend)}
    has = {False} if present.backends else set()
    has |= {True} if present.cluster_backends else set()
    where = f"{destination_text(frontend.key)} of {frontend.owner}"
    if wanted - has:
        yield _of(frontend, Kind.MISSING_BACKEND, f"{where} leads to no listener of the proxy.")
    if has - wanted:
        yield _of(frontend, Kind.FOREIGN_BACKEND, f"{where} leads to a listener, but there is no backend.")


def _has_no_address(key: FrontendKey, expected: Expectations) -> bool:
    """Whether a node port has no address: its virtual servers are on the addresses of the node."""
    return key.is_node_port and expected.settings.node_port_cidrs is not None and not expected.facts.addresses


def _backends(backends: Iterable[AddressPort]) -> str:
    texts = [join_host_port(*backend) for backend in sorted(backends)]
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{', '.join(texts[:_MOST_NAMED])}{more}"


def _of(frontend: Frontend, kind: Kind, text: str) -> Difference:
    return Difference(kind=kind, text=text, service=frontend.owner, frontend=frontend.key)


def _foreign(key: FrontendKey, present: KernelFrontend, rules: NodeRules) -> Difference:
    whose = f" of {present.service}" if present.service else ""
    lines = tuple(entry.text for entry in rules.entries if entry.frontend == key)[:_MOST_NAMED]
    return Difference(
        kind=Kind.FOREIGN_FRONTEND,
        text=f"Rules serve {destination_text(key)}{whose}, which no Service has there.",
        service=present.service,
        frontend=key,
        evidence=lines,
    )


def _compare_ipvs(
    expected: Expectations, objects: IpvsObjects, reported: Set[FrontendKey | None], unread: Set[str]
) -> Iterator[Difference]:
    for one in find_alterations(expected, objects):
        # Of Services that were not read, objects cannot be known, and some have the name of no Service.
        is_known = not unread or (one.service and str(service_of(one.service)) not in unread)
        if is_known and one.frontend not in reported:
            yield Difference(
                kind=Kind(one.part), text=one.text, service=one.service, frontend=one.frontend, evidence=one.lines
            )


# --- Chains --------------------------------------------------------------------------------------------------


def _compare_chains(expected: Expectations, rules: NodeRules, mode: RulesMode) -> Iterator[Difference]:
    present: dict[str, list[Entry]] = {}
    for entry in rules.entries:
        if entry.mode is mode and ", chain " in entry.container:
            present.setdefault(entry.container, []).append(entry)
    if mode in (RulesMode.NFTABLES, RulesMode.USERSPACE):
        yield from _compare_nft_chains(expected, present, mode)
    elif mode in (RulesMode.IPTABLES, RulesMode.IPVS):
        yield from _compare_iptables_chains(expected, present, mode)


def _compare_nft_chains(
    expected: Expectations, present: Mapping[str, list[Entry]], mode: RulesMode
) -> Iterator[Difference]:
    frontends: Sequence[Frontend] = list(expected.table)
    spec = TableSpec()
    if mode is RulesMode.USERSPACE:
        spec = TableSpec(TABLE, guards())
        ports = {side: 1 for frontend in frontends for side in sides(frontend)}
        frontends = [redirect(frontend, ports) for frontend in frontends]
    renderer = NftablesRenderer(expected.settings, spec)
    renderer.full(frontends, expected.table.cluster_ips(), {})
    wanted = {
        f"table {family_keyword(chain.family)} {spec.name}, chain {chain.name}": chain.rules
        for family in renderer.families
        for chain in renderer.chains(family)
    }
    shared = not expected.unread  # chains for unknown numbers of backends cannot be known
    for container, rules in wanted.items():
        has = present.get(container)
        if has is None:
            if shared or "-prerouting" in container or "-output" in container:
                yield _chain(container, f"{_name(container)} has no rules.", ())
            continue
        meanings = [rule_meaning("own", rule) or rule for rule in rules]
        yield from _compare_rules(container, Counter(meanings), has, lambda entry: entry.meaning)
    for container in present.keys() - wanted.keys() if shared else ():
        lines = tuple(entry.text for entry in present[container])
        yield _chain(container, f"{_name(container)} is of no Service.", lines)


def _compare_iptables_chains(
    expected: Expectations, present: Mapping[str, list[Entry]], mode: RulesMode
) -> Iterator[Difference]:
    if expected.unread and mode is RulesMode.IPTABLES:
        return  # every Service has chains of its own
    renderer = IptablesRenderer(expected.settings)
    renderer.full(expected.table, expected.table.cluster_ips(), {})
    for family in expected.settings.families:
        ip = family_keyword(family)
        is_used = any(frontend.key.family == family for frontend in expected.table)
        if not is_used and not any(container.startswith(f"table {ip} ") for container in present):
            continue  # the kernel may lack the family
        is_ipvs = mode is RulesMode.IPVS
        chains = ipvs_chains.chains(family, expected.settings) if is_ipvs else renderer.chains(family)
        ours = {f"table {ip} {chain.table}, chain {chain.name}": rules for chain, rules in chains.items()}
        for container, rules in ours.items():
            has = present.get(container, [])
            name = container.rpartition("chain ")[2]
            lines = Counter(f"-A {name} {rule}" for rule in as_printed(rules))
            yield from _compare_rules(container, lines, has, lambda entry: entry.text)
        for jump in ipvs_chains.jumps() if is_ipvs else jumps():
            container = f"table {ip} {jump.table}, chain {jump.chain}"
            if all(f"-j {jump.target}" not in entry.text for entry in present.get(container, ())):
                yield _chain(container, f"{_name(container)} does not jump to {jump.target}.", ())
        for container, has in present.items():
            table, _, name = container.removeprefix("table ").partition(", chain ")
            keyword, _, table = table.partition(" ")
            is_foreign = keyword == ip and table in ("nat", "filter") and container not in ours and not is_ipvs
            if is_foreign and is_ours(table, name):
                yield _chain(container, f"{_name(container)} is of no Service.", tuple(entry.text for entry in has))


def _compare_rules(
    container: str, wanted: Counter[str], has: Sequence[Entry], key: Callable[[Entry], str]
) -> Iterator[Difference]:
    present = Counter(key(entry) for entry in has)
    foreign = present - wanted
    missing = wanted - present
    if not foreign and not missing:
        return
    lines = tuple(entry.text for entry in has if foreign[key(entry)])
    owner = next((entry.service for entry in has if entry.service), "") if "KUBE-S" in container else ""
    parts = []
    if missing:
        parts.append(f"lacks {sum(missing.values())} rules")
    if foreign:
        parts.append(f"has {sum(foreign.values())} foreign rules")
    evidence = (*(f"missing: {text}" for text in sorted(missing)), *(f"foreign: {line}" for line in lines))
    yield _chain(container, f"{_name(container)} {' and '.join(parts)}.", evidence, owner)


def _name(container: str) -> str:
    return f"Chain {container.rpartition('chain ')[2]} ({container.partition(', ')[0]})"


def _chain(container: str, text: str, evidence: tuple[str, ...], service: str = "") -> Difference:
    return Difference(kind=Kind.CHAIN, text=text, service=service, evidence=evidence[:_MOST_NAMED])
