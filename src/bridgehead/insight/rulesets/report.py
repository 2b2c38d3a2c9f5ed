"""A node's rules as text and as JSON, for people and programs. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .entries import Entry, Mechanism, NodeRules
from .expected_frontends import destination_text

_FOR_ALL = "for all Services"


def report_rules(rules: NodeRules, service: str = "", names: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the lines of all rules, or of those of a Service `namespace/name` with the chains that it shares.

    `names`: of backends, by address.
    """
    groups: dict[str, list[Entry]] = {}
    unexplained = set(map(id, rules.unexplained))
    if service:
        own = rules.of_service(service)
        for entry in own:
            if id(entry) not in unexplained:
                groups.setdefault(entry.service, []).append(entry)
        shared = _shared(rules, own)
        if shared:
            groups["in chains that it shares with other Services"] = shared
    else:
        for entry in rules.entries:
            if id(entry) not in unexplained:
                groups.setdefault(entry.service or _FOR_ALL, []).append(entry)
        for_all = groups.pop(_FOR_ALL, [])
        groups = {name: groups[name] for name in sorted(groups)}
        if for_all:
            groups[_FOR_ALL] = for_all
    foreign = [entry for entry in rules.unexplained if not service or entry.service.rpartition(":")[0] == service]
    if foreign:
        groups["of no Service that should be there"] = foreign
    for name, entries in groups.items():
        yield f"{name.removesuffix(':')}:"  # of a port without a name, and of lines for all ports of a Service
        is_of_service = name != _FOR_ALL and "/" in name
        yield from _by_container(sorted(entries, key=_destination) if is_of_service else entries, names or {})
        yield ""


def _shared(rules: NodeRules, own: Iterable[Entry]) -> list[Entry]:
    keys = {entry.frontend for entry in own if entry.frontend is not None}
    chains = {
        chain
        for served in rules.frontends.values()
        for key, frontend in served.items()
        if key in keys
        for chain in frontend.chains
    }
    return [entry for entry in rules.entries if not entry.service and entry.container in chains]


def _destination(entry: Entry) -> tuple[bool, tuple[str, str, int]]:
    """Return the sort key that puts the elements of one destination together, and those of none last.

    Rules of iptables keep their order, which has a meaning.
    """
    key = entry.frontend
    if entry.mechanism in (Mechanism.IPTABLES, Mechanism.IPTABLES_LEGACY):
        return False, ("", "", 0)
    return (key is None, ("", "", 0) if key is None else (key.address, key.protocol, key.port))


def _by_container(entries: Iterable[Entry], names: Mapping[str, str]) -> Iterator[str]:
    container, meaning = "", ""
    for entry in entries:
        if entry.container != container:
            container, meaning = entry.container, ""
            yield f"  {container}"
        counters = "" if entry.packets is None else f"  [{entry.packets} packets, {entry.bytes} bytes]"
        yield f"    {entry.text.strip()}{counters}"
        if entry.meaning != meaning:
            meaning = entry.meaning
            name = names.get(entry.backend.rpartition(":")[0].strip("[]")) if entry.backend else None
            yield f"      {meaning}" if name is None else f"      {meaning[:-1]} ({name})."


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """Return a line as JSON; what it does not have is left out."""
    found: dict[str, Any] = {
        "mechanism": entry.mechanism.value,
        "mode": entry.mode.value,
        "container": entry.container,
        "text": entry.text.strip(),
        "meaning": entry.meaning,
    }
    if entry.frontend is not None:
        key = entry.frontend
        found["destination"] = {"address": key.address, "protocol": key.protocol, "port": key.port}
        found["destinationText"] = destination_text(key)
    optional: Mapping[str, Any] = {
        "service": entry.service, "backend": entry.backend, "packets": entry.packets, "bytes": entry.bytes,
    }  # fmt: skip
    return found | {name: value for name, value in optional.items() if value not in ("", None)}
