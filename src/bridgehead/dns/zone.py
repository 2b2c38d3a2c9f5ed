"""The cluster's zone as finished answers, kept up to date change by change.

`agent.py` puts in what informers tell, `responder.py` looks up. A change costs what the changed Service has; a query
for a name with records, or for the address family that a name does not have, is one look-up. Pure but for its state.

Every name that exists has at least the key of its A question in the table, so that existence is a look-up, too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from bridgehead.objects.meta import ObjectKey

from . import wire
from .records import (
    Data,
    RecordSets,
    ServiceRecords,
    Soa,
    address_of_pod_label,
    address_sets,
    reverse_name,
    zone_records,
)

# These stand in the table for "the name exists, this type does not", "the name is another one's alias", and "we know
# this address, but only PTR of it". A stride below 0 marks them.
NODATA = wire.Answer(b"", b"", -1)
ALIAS = wire.Answer(b"", b"", -2)
REVERSE = wire.Answer(b"", b"", -3)

_AT_ONCE = 500  # names compiled in one step: a few milliseconds
_LARGE = 16  # names: what such a Service had is remembered, so that a change costs what changed
_MOST_MORE = 64  # Services of which is kept what the table does not have
POD_MODES = ("disabled", "insecure", "verified")


@dataclass(frozen=True)
class ZoneSettings:
    """`recursive`: whether others' names are answered, too, which every reply says (RA). Times in seconds.

    Only of `namespaces` there are names, if any are given. With `endpoint_pod_names` endpoints without a host name are
    called by their pod's name, not by their address.
    """

    domain: str = "cluster.local"
    pods: str = "insecure"
    ttl: int = 5
    negative_ttl: int = 0
    recursive: bool = True
    namespaces: tuple[str, ...] = ()
    endpoint_pod_names: bool = False


Result = TypeVar("Result")

# Something that is done step by step, and then says whether any answer changed.
Steps = Generator[None, None, bool]


class _Plan(NamedTuple):
    """What an owner's keys are to be answered, None for as they are; and which are a name's."""

    fresh: dict[bytes, wire.Answer | None]
    keys: dict[str, tuple[bytes, ...]]


class _Large(NamedTuple):
    """What an owner of many names had, and the keys of each in the table."""

    names: Mapping[str, RecordSets]
    keys: Mapping[str, tuple[bytes, ...]]


class Zone:
    """All names of one cluster. `serial` of its SOA is the second of the last change as the caller tells it.

    `find_more` gives what a Service has beside its names in the table (`records.more_records`), when somebody asks.
    """

    def __init__(self, settings: ZoneSettings = ZoneSettings(), serial: int = 1) -> None:
        self.settings = settings
        self.table: dict[bytes, wire.Answer] = {}
        self.wire_domain = wire.encode_name(settings.domain)
        self._services_domain = wire.encode_name(f"svc.{settings.domain}")
        self.wire_pods_domain = wire.encode_name(f"pod.{settings.domain}")
        self._large: dict[ObjectKey | str, _Large] = {}
        self._owned: dict[ObjectKey | str, tuple[bytes, ...]] = {}
        self._reverse: dict[str, dict[ObjectKey, tuple[str, ...]]] = {}
        self._reverse_owned: dict[ObjectKey, tuple[str, ...]] = {}
        self._in_namespace: Counter[str] = Counter()
        self._namespaces: set[str] = set()
        self.server_addresses: tuple[str, ...] = ()
        self._negatives: dict[tuple[int, int], wire.Answer] = {}
        self._serial = serial
        self.find_more: Callable[[ObjectKey], Mapping[str, RecordSets]] = lambda service: {}
        self._more: OrderedDict[ObjectKey, Mapping[str, RecordSets]] = OrderedDict()
        self._own_names()

    # --- Changes ---------------------------------------------------------------------------------------------

    def set_serial(self, serial: int) -> None:
        """Something changed; serials never go back (RFC 1982 is kept by staying below 2**31 seconds of change)."""
        if serial > self._serial:
            self._serial = serial
            self._negatives.clear()
            self._own_names()

    def set_service(self, key: ObjectKey, records: ServiceRecords | None) -> bool:
        """Answer for a Service from now on as `records` say; None: it is gone. Says whether any answer changed."""
        return _at_once(self.change_service(key, records))

    def change_service(self, key: ObjectKey, records: ServiceRecords | None) -> Steps:
        """The same in short steps, between which queries may have their turn; they see the Service as it was until all
        of its names change at once. Only one at a time for a Service."""
        had = key in self._owned
        self._more.pop(key, None)
        names = records.names if records is not None else {}
        changed = self._commit(key, names, (yield from self._plan(key, names)))
        changed |= yield from self._set_reverse(key, records.reverse if records is not None else {})
        has = key in self._owned
        if has != had:
            self._count(key.namespace, 1 if has else -1)
        return changed

    def forget_more(self, key: ObjectKey) -> None:
        """The Service's endpoints changed, of which the table has nothing."""
        self._more.pop(key, None)

    def set_pod(self, key: ObjectKey, names: Mapping[str, RecordSets]) -> bool:
        """The pod's own names, with `pods verified`; an empty mapping: it is gone."""
        return self._replace(f"pod:{key}", names)

    def set_namespace(self, name: str, exists: bool) -> None:
        if exists != (name in self._namespaces):
            (self._namespaces.add if exists else self._namespaces.discard)(name)
            self._count(name, 1 if exists else -1)

    def set_name_server(self, addresses: tuple[str, ...]) -> None:
        """Under which addresses clients reach us, for the zone's NS record."""
        if addresses != self.server_addresses:
            self.server_addresses = addresses
            self._own_names()

    def _own_names(self) -> None:
        settings = self.settings
        names = zone_records(settings.domain, self._serial, settings.negative_ttl, self.server_addresses)
        if settings.pods != "disabled":
            names[f"pod.{settings.domain}"] = {}
        self._replace("zone", names)

    def _count(self, namespace: str, by: int) -> None:
        """A namespace's name exists while the namespace does, or anything in it."""
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
        """Make these names, and no others, the owner's. Says whether any answer changed."""
        return self._commit(owner, names, _at_once(self._plan(owner, names)))

    def _plan(self, owner: ObjectKey | str, names: Mapping[str, RecordSets]) -> Generator[None, None, _Plan]:
        """Compile what is not in the table yet. Changes nothing."""
        fresh: dict[bytes, wire.Answer | None] = {}
        keys: dict[str, tuple[bytes, ...]] = {}
        before = self._large.get(owner)
        for count, (name, sets) in enumerate(names.items(), 1):
            if not count % _AT_ONCE:
                yield
            # What is as it was needs no answer. With SRV go addresses of other names, which may not be.
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

    def _compile(self, name: str, sets: RecordSets, glue: Mapping[str, RecordSets]) -> dict[bytes, wire.Answer]:
        """By their keys, the answers to questions for a name's records and addresses."""
        settings = self.settings
        try:
            wire_name = wire.encode_name(name)
        except ValueError:
            return {}  # longer than a name can be: nobody can ask for it
        nothing = ALIAS if "CNAME" in sets else NODATA
        found = {wire.question_key(wire_name, wire.TYPES[kind]): nothing for kind in ("A", "AAAA")}
        for kind in sets:
            answer = wire.compile_answer(wire_name, kind, sets, settings.ttl, glue, ra=settings.recursive)
            found[wire.question_key(wire_name, wire.TYPES[kind])] = answer
        return found

    def _set_reverse(self, key: ObjectKey, reverse: Mapping[str, tuple[str, ...]]) -> Steps:
        changed = False
        for count, address in enumerate({*self._reverse_owned.pop(key, ()), *reverse}, 1):
            if not count % _AT_ONCE:
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
        targets: dict[Data, None] = {target: None for owner in sorted(owners) for target in owners[owner]}
        if targets:
            settings = self.settings
            self.table[exists] = REVERSE
            self.table[key] = wire.compile_answer(
                name, "PTR", {"PTR": tuple(targets)}, settings.ttl, {}, ra=settings.recursive
            )
        else:
            self.table.pop(exists, None)
            self.table.pop(key, None)

    # --- Questions -------------------------------------------------------------------------------------------

    def is_ours(self, query: wire.Query) -> bool:
        """Whether the name is the zone or below it."""
        at = len(query.name) - len(self.wire_domain)
        return query.name.endswith(self.wire_domain) and (at in query.labels or at == 0)

    def knows(self, name: bytes) -> bool:
        """Whether a name in wire form exists, with records or without."""
        return wire.question_key(name, wire.TYPES["A"]) in self.table

    def is_alias(self, name: bytes) -> bool:
        """Whether a name in wire form is that of an ExternalName Service."""
        return self.table.get(wire.question_key(name, wire.TYPES["A"])) is ALIAS

    def answer(self, query: wire.Query) -> wire.Answer | None:
        """The zone's answer; None for a name outside it that is not the reverse of one of ours."""
        answer = self.table.get(query.key)
        if answer is not None and answer.stride >= 0:
            return answer
        known = self.table.get(wire.question_key(query.name, wire.TYPES["A"]))
        if not self.is_ours(query):
            # There is no SOA of ours above an address, so none is shown.
            return None if known is None else wire.Answer(wire.head(0, 0, ra=self.settings.recursive), b"", 0)
        if known is ALIAS:
            return self.table[wire.question_key(query.name, wire.TYPES["CNAME"])]
        if known is not None:
            if query.type == wire.ANY:
                return wire.minimal_any(self.settings.ttl, ra=self.settings.recursive)
            more = self._more_answer(query) if query.type == wire.TYPES["SRV"] else None
            return more or self.nodata(len(query.name))
        if self.settings.pods == "insecure" and query.name.endswith(self.wire_pods_domain):
            return self._insecure_pod(query)
        return self._more_answer(query) or self.no_such_name(len(query.name))

    def _more_answer(self, query: wire.Query) -> wire.Answer | None:
        """To a question about a Service's own name, or one right below it, that the table has no answer to."""
        below = len(query.labels) - self._pods_domain_depth - 2
        if below not in (0, 1) or not query.name.endswith(self._services_domain):
            return None
        name = wire.decode_name(query.name)
        service, namespace = name.split(".")[below : below + 2]
        key = ObjectKey(namespace, service)
        if key not in self._owned:
            return None
        names = self._more.get(key)
        if names is None:
            names = self._more[key] = self.find_more(key)
            if len(self._more) > _MOST_MORE:
                self._more.popitem(last=False)
        self._more.move_to_end(key)
        sets = names.get(name)
        if sets is None:
            return None
        kind = wire.TYPE_NAMES.get(query.type, "")
        if not sets.get(kind):
            return self.nodata(len(query.name))
        return wire.compile_answer(query.name, kind, sets, self.settings.ttl, names, ra=self.settings.recursive)

    def namespace_of_search(self, query: wire.Query) -> str:
        """The namespace in a name x.<namespace>.svc.<zone>; "" for other names."""
        depth = self._pods_domain_depth + 1
        if len(query.labels) <= depth or not query.name.endswith(self._services_domain):
            return ""
        start, end = query.labels[-depth], query.labels[-depth + 1]
        return query.name[start + 1 : end].decode("latin-1")

    def _insecure_pod(self, query: wire.Query) -> wire.Answer:
        """10-244-1-2.default.pod.<zone> is 10.244.1.2, whether or not there is such a pod."""
        depth = len(query.labels) - self._pods_domain_depth
        if depth == 2 and self.knows(query.name[query.labels[1] :]):
            label = query.name[1 : query.labels[1]].decode("latin-1")
            address = address_of_pod_label(label)
            if address is not None:
                sets = address_sets((address,))
                kind = wire.TYPE_NAMES.get(query.type, "")
                if kind in sets:
                    return wire.compile_answer(
                        query.name, kind, sets, self.settings.ttl, {}, ra=self.settings.recursive
                    )
                return self.nodata(len(query.name))
        return self.no_such_name(len(query.name))

    @property
    def _pods_domain_depth(self) -> int:
        return self.settings.domain.count(".") + 2

    def nodata(self, size: int) -> wire.Answer:
        """For every name of the zone whose wire form has this size: it exists, what was asked for does not."""
        return self._negative(size, wire.NOERROR)

    def no_such_name(self, size: int) -> wire.Answer:
        """For every name of that size which would be in the zone."""
        return self._negative(size, wire.NXDOMAIN)

    def _negative(self, size: int, rcode: int) -> wire.Answer:
        """No such name, or no such type: the zone's SOA says so."""
        found = self._negatives.get((size, rcode))
        if found is None:
            # Only the zone's part of the question is the same in all of them and may be pointed to.
            writer = wire.Writer(_filler(size - len(self.wire_domain)) + self.wire_domain)
            writer.add(self.wire_domain, "SOA", self.settings.negative_ttl, self._soa())
            front = wire.head(rcode, 0, 1, ra=self.settings.recursive)
            found = self._negatives[size, rcode] = wire.Answer(front, bytes(writer.body), 0)
        return found

    def _soa(self) -> Soa:
        domain = self.settings.domain
        return Soa(f"ns.dns.{domain}", f"hostmaster.{domain}", self._serial, minimum=self.settings.negative_ttl)

    # --- All of it -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.table)


def _at_once(steps: Generator[None, None, Result]) -> Result:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _filler(size: int) -> bytes:
    """Labels of that many bytes together, like no name of ours."""
    labels = b""
    while size:
        take = min(size, 64) - (size == 65)  # no label has no bytes
        labels += bytes((take - 1,)) + b"*" * (take - 1)
        size -= take
    return labels
