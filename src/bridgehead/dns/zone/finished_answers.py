"""The cluster's zone as a table of finished answers.

Pure: no I/O, no clock, no randomness.

`zone_sync.py` changes the table Service by Service; a change costs as much as the Service has records. `answering/`
looks up: one look-up for a name with records, or for the address family that a name does not have. Every name that
exists has at least the key of its A question in the table, so existence is one look-up, too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple, TypeVar

from bridgehead.dns.config import ZoneSettings
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.domain_names import address_of_reverse, dashed, reverse_name
from bridgehead.dns.messages.record_sets import RecordSets, Soa, Srv, address_sets
from bridgehead.objects.meta import ObjectKey

from .specification import ServiceRecords, address_of_pod_label, zone_records

# Markers in the table: the name has no records of this type; the name is an alias (CNAME); the name of an address has
# PTR records only. A negative stride marks them.
NODATA = replies.Answer(b"", b"", -1)
ALIAS = replies.Answer(b"", b"", -2)
REVERSE = replies.Answer(b"", b"", -3)

_REVERSE_DOMAINS = (wire.encode_name("in-addr.arpa"), wire.encode_name("ip6.arpa"))
_NAMES_PER_STEP = 500  # compiled between two yields: a few milliseconds
_LARGE = 16  # names; the records of larger Services are kept, so that a change costs only what changed
_MAX_EXTRA = 64  # Services whose extra records are cached


Result = TypeVar("Result")

# A change in steps; the result is whether any answer changed.
Steps = Generator[None, None, bool]


class _Plan(NamedTuple):
    """New answers by key, None for an unchanged one; and the keys of each name."""

    fresh: dict[bytes, replies.Answer | None]
    keys: dict[str, tuple[bytes, ...]]


class _Large(NamedTuple):
    """The names of a large owner, and the keys of each name in the table."""

    names: Mapping[str, RecordSets]
    keys: Mapping[str, tuple[bytes, ...]]


class Zone:
    """All names of one cluster. `serial` of the SOA is the Unix time of the last change, which the caller passes.

    `find_extra` returns a Service's records that are not in the table (`specification.extra_records`), on demand;
    `find_reverse` the names of endpoints with an address (`specification.endpoint_names`).
    """

    def __init__(self, settings: ZoneSettings = ZoneSettings(), serial: int = 1) -> None:  # noqa: B008 - frozen
        self.settings = settings
        self.table: dict[bytes, replies.Answer] = {}
        self.wire_domain = wire.encode_name(settings.domain)
        self._services_domain = wire.encode_name(f"svc.{settings.domain}")
        self._reverse_zones = frozenset(map(wire.encode_name, settings.reverse_zones))
        self.wire_pods_domain = wire.encode_name(f"pod.{settings.domain}")
        self._large: dict[ObjectKey | str, _Large] = {}
        self._owned: dict[ObjectKey | str, tuple[bytes, ...]] = {}
        self._reverse: dict[str, dict[ObjectKey, tuple[str, ...]]] = {}
        self._reverse_owned: dict[ObjectKey, tuple[str, ...]] = {}
        self._names_of_pods: dict[ObjectKey, tuple[str, ...]] = {}
        self._pods_by_name: dict[str, set[ObjectKey]] = {}
        self._in_namespace: Counter[str] = Counter()
        self._namespaces: set[str] = set()
        self.server_addresses: tuple[str, ...] = ()
        self._negatives: dict[tuple[int, int], replies.Answer] = {}
        self._serial = serial
        self.find_extra: Callable[[ObjectKey], Mapping[str, RecordSets]] = lambda service: {}
        self.find_reverse: Callable[[str], Iterable[str]] = lambda address: ()
        self._extra: OrderedDict[ObjectKey, Mapping[str, RecordSets]] = OrderedDict()
        self._update_apex()

    # --- Changes ---------------------------------------------------------------------------------------------

    def set_serial(self, serial: int) -> None:
        """Set the serial after a change. Lower ones are ignored; seconds stay comparable for 68 years (RFC 1982)."""
        if serial > self._serial:
            self._serial = serial
            self._negatives.clear()
            self._update_apex()

    def set_service(self, key: ObjectKey, records: ServiceRecords | None) -> bool:
        """Replace the records of a Service; None: it is deleted. Returns whether any answer changed."""
        return _run_steps(self.change_service(key, records))

    def change_service(self, key: ObjectKey, records: ServiceRecords | None) -> Steps:
        """Replace the records of a Service in short steps, between which queries can be answered.

        Queries see the old records until all names change in one step. Needs one change at a time for a Service.
        """
        had = key in self._owned
        self._extra.pop(key, None)
        names = records.names if records is not None else {}
        changed = self._commit(key, names, (yield from self._plan(key, names)))
        changed |= yield from self._set_reverse(key, records.reverse if records is not None else {})
        has = key in self._owned
        if has != had:
            self._count_in_namespace(key.namespace, 1 if has else -1)
        return changed

    def forget_extra(self, key: ObjectKey) -> None:
        """Drop cached extra records: the endpoints of the Service changed."""
        self._extra.pop(key, None)

    def forget_reverse(self, addresses: Iterable[str]) -> None:
        """Compile the PTR records of addresses again: endpoints with them changed."""
        for address in addresses:
            if owners := self._reverse.get(address):
                self._compile_reverse(address, owners)

    def set_pod(self, key: ObjectKey, names: Mapping[str, RecordSets]) -> bool:
        """Replace the names of a pod (`pods verified`); an empty mapping: it is deleted.

        Pods that use their node's network share its addresses, so a name exists as long as any pod has it.
        """
        changed = False
        for name in self._names_of_pods.pop(key, ()):
            self._pods_by_name[name].discard(key)
            if name not in names and not self._pods_by_name[name]:
                del self._pods_by_name[name]
                changed |= self._replace(f"pod:{name}", {})
        for name, sets in names.items():
            self._pods_by_name.setdefault(name, set()).add(key)
            changed |= self._replace(f"pod:{name}", {name: sets})
        if names:
            self._names_of_pods[key] = tuple(names)
        return changed

    def set_namespace(self, name: str, exists: bool) -> None:
        """Add or delete a namespace."""
        if exists != (name in self._namespaces):
            (self._namespaces.add if exists else self._namespaces.discard)(name)
            self._count_in_namespace(name, 1 if exists else -1)

    def set_name_server(self, addresses: tuple[str, ...]) -> None:
        """Set the addresses of this server's Service, for the zone's NS record."""
        if addresses != self.server_addresses:
            self.server_addresses = addresses
            self._update_apex()

    def _update_apex(self) -> None:
        settings = self.settings
        names = zone_records(settings.domain, self._serial, settings.negative_ttl, self.server_addresses)
        if settings.pods != "disabled":
            names[f"pod.{settings.domain}"] = {}
        self._replace("zone", names)

    def _count_in_namespace(self, namespace: str, by: int) -> None:
        """Keep the name of a namespace while the namespace or a Service in it exists."""
        self._in_namespace[namespace] += by
        if self._in_namespace[namespace] <= 0:
            del self._in_namespace[namespace]
        names: dict[str, RecordSets] = {}
        if namespace in self._in_namespace:
            names[f"{namespace}.svc.{self.settings.domain}"] = {}
            if self.settings.pods != "disabled":
                names[f"{namespace}.pod.{self.settings.domain}"] = {}
        self._replace(f"namespace:{namespace}", names)

    def _replace(self, owner: ObjectKey | str, names: Mapping[str, RecordSets]) -> bool:
        """Replace all names of an owner. Returns whether any answer changed."""
        return self._commit(owner, names, _run_steps(self._plan(owner, names)))

    def _plan(self, owner: ObjectKey | str, names: Mapping[str, RecordSets]) -> Generator[None, None, _Plan]:
        """Compile the answers that are not in the table yet. The table is not changed."""
        fresh: dict[bytes, replies.Answer | None] = {}
        keys: dict[str, tuple[bytes, ...]] = {}
        before = self._large.get(owner)
        for count, (name, sets) in enumerate(names.items(), 1):
            if not count % _NAMES_PER_STEP:
                yield
            # An unchanged name keeps its answers. Answers with SRV contain addresses of other names, which may change.
            if before is not None and before.names.get(name) == sets and name in before.keys and "SRV" not in sets:
                keys[name] = before.keys[name]
                fresh.update(dict.fromkeys(keys[name]))
                continue
            answers = self._compile(name, sets, names)
            if answers:
                keys[name] = tuple(answers)
                fresh.update(answers)
        return _Plan(fresh, keys)

    def _commit(self, owner: ObjectKey | str, names: Mapping[str, RecordSets], plan: _Plan) -> bool:
        fresh, keys = plan
        changed = False
        for key in self._owned.get(owner, ()):
            if key not in fresh:
                self.table.pop(key, None)
                changed = True
        for key, answer in fresh.items():
            if answer is not None and self.table.get(key) != answer:
                self.table[key] = answer
                changed = True
        if fresh:
            self._owned[owner] = tuple(fresh)
        else:
            self._owned.pop(owner, None)
        if len(names) >= _LARGE:
            self._large[owner] = _Large(names, keys)
        else:
            self._large.pop(owner, None)
        return changed

    def _compile(self, name: str, sets: RecordSets, glue: Mapping[str, RecordSets]) -> dict[bytes, replies.Answer]:
        """Return by key the answers for all record types of a name, and for A and AAAA."""
        settings = self.settings
        try:
            wire_name = wire.encode_name(name)
        except ValueError:
            return {}  # too long for a query
        absent = ALIAS if "CNAME" in sets else NODATA
        found = {wire.question_key(wire_name, wire.TYPES[kind]): absent for kind in ("A", "AAAA")}
        for kind in sets:
            answer = replies.compile_answer(wire_name, kind, sets, settings.ttl, glue, ra=settings.recursive)
            found[wire.question_key(wire_name, wire.TYPES[kind])] = answer
        return found

    def _set_reverse(self, key: ObjectKey, reverse: Mapping[str, tuple[str, ...]]) -> Steps:
        changed = False
        for count, address in enumerate({*self._reverse_owned.pop(key, ()), *reverse}, 1):
            if not count % _NAMES_PER_STEP:
                yield
            owners = self._reverse.get(address, {})
            names = reverse.get(address)
            if owners.get(key) == names:
                continue
            changed = True
            owners = self._reverse.setdefault(address, owners)
            if names is None:
                del owners[key]
            else:
                owners[key] = names
            self._compile_reverse(address, owners)
            if not owners:
                del self._reverse[address]
        if reverse:
            self._reverse_owned[key] = tuple(reverse)
        return changed

    def _compile_reverse(self, address: str, owners: Mapping[ObjectKey, tuple[str, ...]]) -> None:
        name = wire.encode_name(reverse_name(address))
        key = wire.question_key(name, wire.TYPES["PTR"])
        exists = wire.question_key(name, wire.TYPES["A"])
        targets = {target: None for owner in sorted(owners) for target in owners[owner]}
        services = {f"{owner.name}.{owner.namespace}.svc.{self.settings.domain}" for owner in owners}
        if services.isdisjoint(targets):
            targets |= dict.fromkeys(self.find_reverse(address) if owners else ())
        else:  # a cluster IP, which is nothing else
            targets = {target: None for target in targets if target in services}
        if targets:
            self.table[exists] = REVERSE
            self.table[key] = self._compile_ptr(name, address, targets)
        else:
            self.table.pop(exists, None)
            self.table.pop(key, None)

    def _compile_ptr(self, name: bytes, address: str, targets: Iterable[str]) -> replies.Answer:
        """Return the PTR records: host names come first, because getnameinfo(3) returns the first name."""
        settings, by_address = self.settings, f"{dashed(address)}."
        ordered = tuple(sorted(targets, key=lambda target: target.startswith(by_address)))
        return replies.compile_answer(name, "PTR", {"PTR": ordered}, settings.ttl, {}, ra=settings.recursive)

    # --- Questions -------------------------------------------------------------------------------------------

    def contains(self, query: wire.Query) -> bool:
        """Whether the name is the zone's or below it."""
        at = len(query.name) - len(self.wire_domain)
        return query.name.endswith(self.wire_domain) and (at in query.labels or at == 0)

    def has_name(self, name: bytes) -> bool:
        """Whether a name, in wire form, exists, with records or without."""
        return wire.question_key(name, wire.TYPES["A"]) in self.table

    def answer(self, query: wire.Query, *, in_zone: bool) -> replies.Answer | None:
        """Return the answer; None for a name outside the zone, unless an address of the zone has it as PTR name.

        `in_zone` is `contains(query)`, which the caller needs as well.
        """
        answer = self.table.get(query.key)
        if answer is not None and answer.stride >= 0:
            return answer
        known = self.table.get(wire.question_key(query.name, wire.TYPES["A"]))
        if not in_zone:
            return self._reverse_answer(query, is_known=known is not None)
        if known is ALIAS:
            return self.table[wire.question_key(query.name, wire.TYPES["CNAME"])]
        if known is not None:
            if query.type == wire.ANY:
                return replies.minimal_any(self.settings.ttl, ra=self.settings.recursive)
            if query.type != wire.TYPES["SRV"]:
                return self.nodata(len(query.name))
            return self._extra_answer(query) or self._pod_answer(query) or self.nodata(len(query.name))
        if self.settings.pods == "insecure" and query.name.endswith(self.wire_pods_domain):
            return self._insecure_pod(query)
        return self._extra_answer(query) or self.nxdomain(len(query.name))

    def _extra_answer(self, query: wire.Query) -> replies.Answer | None:
        """Return the answer from extra records: at a Service's own name, or right below it. None if there is none."""
        below = len(query.labels) - self._pods_domain_depth - 2
        if below not in (0, 1) or not query.name.endswith(self._services_domain):
            return None
        name = wire.decode_name(query.name)
        service, namespace = name.split(".")[below : below + 2]
        key = ObjectKey(namespace, service)
        if key not in self._owned:
            return None
        names = self._extra.get(key)
        if names is None:
            names = self._extra[key] = self.find_extra(key)
            if len(self._extra) > _MAX_EXTRA:
                self._extra.popitem(last=False)
        self._extra.move_to_end(key)
        sets = names.get(name)
        if sets is None:
            return None
        kind = wire.TYPE_NAMES.get(query.type, "")
        if not sets.get(kind):
            return self.nodata(len(query.name))
        return replies.compile_answer(query.name, kind, sets, self.settings.ttl, names, ra=self.settings.recursive)

    def namespace_of_search(self, query: wire.Query) -> str:
        """Return the namespace in a name x.<namespace>.svc.<zone>; "" for other names."""
        depth = self._pods_domain_depth + 1
        if len(query.labels) <= depth or not query.name.endswith(self._services_domain):
            return ""
        start, end = query.labels[-depth], query.labels[-depth + 1]
        return query.name[start + 1 : end].decode("latin-1")

    def _insecure_pod(self, query: wire.Query) -> replies.Answer:
        """Answer for 10-244-1-2.default.pod.<zone> with 10.244.1.2, whether or not a pod has the address."""
        return self._pod_answer(query) or self.nxdomain(len(query.name))

    def _pod_answer(self, query: wire.Query) -> replies.Answer | None:
        """Return the answer from the address that the name of a pod spells; None for a name that spells none.

        As with CoreDNS, a pod's name has an SRV record, with port 0.
        """
        is_pod = query.name.endswith(self.wire_pods_domain) and len(query.labels) - self._pods_domain_depth == 2
        if not is_pod or not self.has_name(query.name[query.labels[1] :]):
            return None
        address = address_of_pod_label(query.name[1 : query.labels[1]].decode("latin-1"))
        if address is None:
            return None
        name = wire.decode_name(query.name)
        addresses = address_sets((address,))
        sets: RecordSets = addresses | {"SRV": (Srv(0, 100, 0, name),)}
        kind = wire.TYPE_NAMES.get(query.type, "")
        if kind not in sets:
            return self.nodata(len(query.name))
        settings = self.settings
        glue = {name: addresses}
        return replies.compile_answer(query.name, kind, sets, settings.ttl, glue, ra=settings.recursive)

    def _reverse_answer(self, query: wire.Query, *, is_known: bool) -> replies.Answer | None:
        """Return the answer at the name of an address; None for other names, and for addresses that are not known.

        `is_known`: the address is a cluster IP, or that of an endpoint of a headless Service.
        """
        if not query.name.endswith(_REVERSE_DOMAINS):
            return None
        if not is_known:
            address = address_of_reverse(wire.decode_name(query.name))
            names = list(self.find_reverse(address)) if address is not None else []
            if address is None or not names:
                return None
            if query.type == wire.TYPES["PTR"]:
                return self._compile_ptr(query.name, address, names)
        zones = (at for at in query.labels if query.name[at:] in self._reverse_zones)
        return self.denial(query.name, query.name[next(zones, query.labels[-2]) :], wire.NOERROR)

    def denial(self, name: bytes, apex: bytes, rcode: int) -> replies.Answer:
        """Return an answer without records, with the SOA of a reverse zone: `apex`, in wire form."""
        settings = self.settings
        writer = replies.Writer(name)
        writer.add(apex, "SOA", settings.negative_ttl, self._soa(wire.decode_name(apex)))
        return replies.Answer(replies.head(rcode, 0, 1, ra=settings.recursive), bytes(writer.body), 0)

    @property
    def _pods_domain_depth(self) -> int:
        return self.settings.domain.count(".") + 2

    def nodata(self, size: int) -> replies.Answer:
        """Return the NODATA for any name of the zone whose wire form has this size."""
        return self._negative(size, wire.NOERROR)

    def nxdomain(self, size: int) -> replies.Answer:
        """Return the NXDOMAIN for any name below the zone whose wire form has this size."""
        return self._negative(size, wire.NXDOMAIN)

    def _negative(self, size: int, rcode: int) -> replies.Answer:
        """Return the answer without records, with the zone's SOA in the authority section."""
        found = self._negatives.get((size, rcode))
        if found is None:
            # Compression pointers may point only to the zone's part of the question, which is equal for all names.
            writer = replies.Writer(_filler(size - len(self.wire_domain)) + self.wire_domain)
            writer.add(self.wire_domain, "SOA", self.settings.negative_ttl, self._soa(self.settings.domain))
            front = replies.head(rcode, 0, 1, ra=self.settings.recursive)
            found = self._negatives[size, rcode] = replies.Answer(front, bytes(writer.body), 0)
        return found

    def _soa(self, domain: str) -> Soa:
        return Soa(f"ns.dns.{domain}", f"hostmaster.{domain}", self._serial, minimum=self.settings.negative_ttl)

    # --- All of it -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.table)


def _run_steps(steps: Generator[None, None, Result]) -> Result:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _filler(size: int) -> bytes:
    """Return labels of `size` bytes in all, which equal no name of the zone."""
    labels = b""
    while size:
        take = min(size, 64) - (size == 65)  # so that no label is empty
        labels += bytes((take - 1,)) + b"*" * (take - 1)
        size -= take
    return labels
