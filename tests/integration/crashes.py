"""An API server that is killed while clients write, and what must be true afterwards.

Clients create, patch and delete Services. Each has names of its own, so it knows what each of its objects must be:
what the last answer stated, or what the one request without an answer asked for. `benchmarks.crashes` runs it at
length.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.resources import build_table
from bridgehead.storage import open_store
from tests.integration.apiserver_process import ServerProcess

_SERVICES = "/api/v1/namespaces/default/services"
_ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
_TYPES = ("ClusterIP", "NodePort", "None")
_NAMES = 20  # objects of one client

JsonObject = dict[str, Any]


@dataclass
class Known:
    """The known state of one name: the number of its last acknowledged write, and its revision; None: deleted.

    `asked` is the number of a write without an answer, None for a deletion; `is_open` whether there is such a request.
    """

    number: int | None = None
    revision: int = 0
    is_open: bool = False
    asked: int | None = None


@dataclass
class Outcome:
    """The result of one round. `problems` is what must not be."""

    acknowledged: int = 0
    unanswered: int = 0
    refused: dict[int, int] = field(default_factory=dict)
    objects: int = 0
    problems: list[str] = field(default_factory=list)


class Crashes:
    """One store through all rounds. `writes` are those of one round, if the server lived so long."""

    def __init__(self, server: ServerProcess, path: Path, *, clients: int, writes: int, seed: int) -> None:
        self._server = server
        self._path = path
        self._writes = writes
        self._random = random.Random(seed)
        self._known = [{f"s{client}-{one}": Known() for one in range(_NAMES)} for client in range(clients)]
        self._number = 0
        self._table = {
            one.id: one for one in build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
        }

    def round(self) -> Outcome:
        """Write until the server is killed after a random number of writes; look at the file; restart; look again."""
        outcome = Outcome()
        asyncio.run(self._write(outcome, self._random.randrange(1, self._writes)))
        self._server.stop(signal.SIGKILL)
        outcome.problems += asyncio.run(self._problems_of_the_file())
        self._server.start()
        services = self._list(_SERVICES)
        outcome.objects = len(services)
        outcome.problems += self._compare({one["metadata"]["name"]: one for one in services})
        outcome.problems += _allocation_problems(services, self._list(_ADDRESSES))
        return outcome

    # --- clients

    async def _write(self, outcome: Outcome, until: int) -> None:
        context = self._server.context("admin")
        await asyncio.gather(*(self._run_client(known, context, outcome, until) for known in self._known))

    async def _run_client(self, names: dict[str, Known], context: ssl.SSLContext, outcome: Outcome, until: int) -> None:
        rng = random.Random(self._random.random())
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port, ssl=context)
            while True:
                name = rng.choice(list(names))
                known = names[name]
                request = self._request(name, known, rng)
                known.is_open = True
                writer.write(request)
                status, body = await _answer(reader)
                known.is_open = False
                if status in (200, 201):
                    outcome.acknowledged += 1
                    known.number = known.asked
                    known.revision = int(json.loads(body)["metadata"].get("resourceVersion", 0))
                else:
                    outcome.refused[status] = outcome.refused.get(status, 0) + 1
                if outcome.acknowledged >= until:
                    os.kill(self._server.pid, signal.SIGKILL)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            outcome.unanswered += sum(known.is_open for known in names.values())
            if writer is not None:
                writer.close()

    def _request(self, name: str, known: Known, rng: random.Random) -> bytes:
        self._number += 1
        known.asked = self._number
        annotations = {"annotations": {"number": str(self._number)}}
        if known.number is None:
            spec: JsonObject = {"ports": [{"port": 80}], "selector": {"app": name}}
            kind = rng.choice(_TYPES)
            spec |= {"clusterIP": "None"} if kind == "None" else {"type": kind}
            return _encode("POST", _SERVICES, {"metadata": {"name": name, **annotations}, "spec": spec})
        if rng.random() < 0.3:
            known.asked = None
            return _encode("DELETE", f"{_SERVICES}/{name}", {})
        return _encode("PATCH", f"{_SERVICES}/{name}", {"metadata": annotations}, "application/merge-patch+json")

    # --- what must be true

    async def _problems_of_the_file(self) -> list[str]:
        """Open the store as the server does, and compare the claims of each object with the object."""
        store = open_store(f"sqlite://{self._path}")
        try:
            newest = max((known.revision for known in self._all().values()), default=0)
            problems = [] if store.revision >= newest else [f"revision {store.revision}, acknowledged was {newest}"]
            for resource in self._table.values():
                for record in store.list(resource.id):
                    wanted = _claims(resource, json.loads(record.value))
                    if wanted != record.facts.claims:
                        problems.append(f"{record.key}: claims {set(record.facts.claims)}, not {set(wanted)}")
            return problems
        finally:
            await store.close()

    def _compare(self, found: dict[str, JsonObject]) -> Iterator[str]:
        for name, known in self._all().items():
            obj = found.get(name)
            number = None if obj is None else int(obj["metadata"]["annotations"]["number"])
            possible = {known.number, known.asked} if known.is_open else {known.number}
            if number not in possible:
                yield f"{name}: is {number}, acknowledged was {known.number}, asked {known.asked}"
            revision = 0 if obj is None else int(obj["metadata"]["resourceVersion"])
            if obj is not None and number == known.number and revision != known.revision:
                yield f"{name}: has revision {revision}, acknowledged was {known.revision}"
            known.number, known.revision, known.is_open = number, max(revision, known.revision), False
        for name in found.keys() - self._all().keys() - {"kubernetes"}:
            yield f"{name}: nobody has created it"

    def _all(self) -> dict[str, Known]:
        return {name: known for names in self._known for name, known in names.items()}

    def _list(self, path: str) -> list[JsonObject]:
        items: list[JsonObject] = json.loads(self._server.read(path, user="admin"))["items"]
        return items


def _claims(resource: Resource, obj: JsonObject) -> frozenset[str]:
    return resource.strategy.claims(obj)


def _allocation_problems(services: list[JsonObject], addresses: list[JsonObject]) -> Iterator[str]:
    """Each address belongs to one Service, and each Service's address has its IPAddress."""
    owners: dict[str, str] = {}
    for service in services:
        name = service["metadata"]["name"]
        taken = [address for address in service["spec"].get("clusterIPs", ()) if address != "None"]
        taken += [f"port {port['nodePort']}" for port in service["spec"]["ports"] if port.get("nodePort")]
        if service["spec"]["type"] == "NodePort" and not any(one.startswith("port") for one in taken):
            yield f"{name}: has no node port"
        for one in taken:
            if one in owners:
                yield f"{one}: belongs to {owners[one]} and {name}"
            owners[one] = name
    parents = {one["metadata"]["name"]: one["spec"]["parentRef"]["name"] for one in addresses}
    wanted = {address: name for address, name in owners.items() if not address.startswith("port")}
    for address in parents.keys() | wanted.keys():
        if parents.get(address) != wanted.get(address):
            yield f"{address}: of {wanted.get(address)}, its IPAddress is of {parents.get(address)}"


def _encode(method: str, path: str, obj: JsonObject, content_type: str = "application/json") -> bytes:
    body = json.dumps(obj).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)
