"""Clients that write through any of the servers until they are stopped, and record every answer.

Some use a few ConfigMaps together, some create Services with fixed and free addresses and ports, and some create and
delete ConfigMaps in a namespace with a quota.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.linearizability import UNKNOWN, Operation

from .answers import Answer, Body, revision_of, state_of
from .connections import Connections, NoAnswer
from .models import Outcome, Verb
from .recordings import Recording, ServiceWrite
from .watches import Acknowledged

SHARED, LIMITED = "shared", "limited"
CONFIG_MAPS, SERVICES = "configmaps", "services"
FIXED_PORTS = range(30100, 30106)
FIXED_ADDRESSES = tuple(f"10.96.7.{number}" for number in range(1, 7))
QUOTA = 2
_KEYS = 24
_QUOTA_PAUSE = 0.05


def path_of(namespace: str, resource: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def config_map(name: str, state: str) -> Body:
    return {"metadata": {"name": name, "annotations": {"state": state}}, "data": {"filling": "x" * 200}}


def claims_of(service: Body) -> Sequence[str]:
    """Return the claims of a Service: its cluster IPs and node ports."""
    spec = service["spec"]
    ports = [f"nodeport/{port['nodePort']}" for port in spec.get("ports", ()) if port.get("nodePort")]
    return [*(f"clusterip/{address}" for address in spec.get("clusterIPs", ())), *ports]


@dataclass
class Writer:
    """Common to all clients. `number` is the client's."""

    connections: Connections
    recording: Recording
    rng: random.Random
    number: int
    _writes: int = 0

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await self.use_once()

    async def use_once(self) -> None:
        raise NotImplementedError

    def next_name(self) -> str:
        """Return a text that no other write has."""
        self._writes += 1
        return f"c{self.number}-{self._writes}"

    async def send(self, method: str, path: str, body: Body | None = None) -> Answer | None:
        """Return the answer, None if there is none."""
        try:
            answer = await self.connections.send(method, path, body)
        except NoAnswer:
            self.recording.unknown += 1
            return None
        self.recording.answers.setdefault(self.number, []).append(time.monotonic())
        if method == "GET":
            self.recording.read += 1
        elif answer.is_open:
            self.recording.unknown += 1
        elif answer.status < 300:
            self.recording.written += 1
        if answer.status == 500:
            self.recording.unexpected.append(f"{method} {path}: 500 {answer.message}")
        return answer

    def outcome(self, answer: Answer | None) -> Outcome | None:
        """Return the outcome of a write. Raises ValueError for an answer that is no possible one."""
        return None if answer is None else answer.outcome()

    def refuse(self, error: ValueError, request: str) -> None:
        self.recording.unexpected.append(f"{request}: {error}")

    def acknowledge(self, resource: str, obj: Body, state: str) -> None:
        name = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        self.recording.acknowledged.append(Acknowledged(resource, name, revision_of(obj), state))


class RegisterClient(Writer):
    """Reads a ConfigMap that all such clients use, then creates, updates or deletes it."""

    async def use_once(self) -> None:
        name = f"key-{self.rng.randrange(_KEYS)}"
        found = await self._read(name)
        if found is None or self.rng.random() < 0.1:
            await self._write(Verb.CREATE, name)
        elif self.rng.random() < 0.25:
            await self._write(Verb.DELETE, name)
        else:
            await self._write(Verb.UPDATE, name, found)

    async def _read(self, name: str) -> Body | None:
        called = time.monotonic()
        answer = await self.send("GET", path_of(SHARED, CONFIG_MAPS, name))
        if answer is None or answer.status not in (200, 404):
            return None
        found = answer.body if answer.status == 200 else None
        state = None if found is None else state_of(found)
        operation = Operation(name, self.number, called, time.monotonic(), Verb.READ, answer=state)
        self.recording.registers.append(operation)
        return found

    async def _write(self, verb: Verb, name: str, found: Body | None = None) -> None:
        state = "" if verb is Verb.DELETE else self.next_name()
        called = time.monotonic()
        match verb:
            case Verb.CREATE:
                answer = await self.send("POST", path_of(SHARED, CONFIG_MAPS), config_map(name, state))
            case Verb.DELETE:
                answer = await self.send("DELETE", path_of(SHARED, CONFIG_MAPS, name))
            case _:
                metadata = {
                    "resourceVersion": str(revision_of(found or {})),
                    "annotations": {"state": state},
                }
                answer = await self.send("PATCH", path_of(SHARED, CONFIG_MAPS, name), {"metadata": metadata})
        try:
            outcome = self.outcome(answer)
        except ValueError as error:
            self.refuse(error, f"{verb} {name}")
            return
        returned = UNKNOWN if outcome is None else time.monotonic()
        expected = None if found is None else state_of(found)
        operation = Operation(name, self.number, called, returned, verb, state or None, expected, outcome)
        self.recording.registers.append(operation)
        if answer is not None and outcome is Outcome.DONE and verb is not Verb.DELETE:
            self.acknowledge(CONFIG_MAPS, answer.body, state)


class ServiceClient(Writer):
    """Creates a Service with a fixed or free node port and cluster IP, and deletes it again."""

    async def use_once(self) -> None:
        name = self.next_name()
        address = self.rng.choice(FIXED_ADDRESSES) if self.rng.random() < 0.3 else ""
        port = self.rng.choice(FIXED_PORTS) if self.rng.random() < 0.6 else 0
        if await self._create(name, address, port):
            await self._delete(name)

    async def _create(self, name: str, address: str, port: int) -> bool:
        """Return whether the Service exists or may exist."""
        spec = {"type": "NodePort", "ports": [{"port": 80, **({"nodePort": port} if port else {})}]}
        if address:
            spec["clusterIP"] = address
        called = time.monotonic()
        answer = await self.send("POST", path_of(SHARED, SERVICES), {"metadata": {"name": name}, "spec": spec})
        try:
            outcome = self.outcome(answer)
        except ValueError as error:
            self.refuse(error, f"create of Service {name}")
            return False
        refused = ""
        if answer is not None and outcome is Outcome.DONE:
            self.acknowledge(SERVICES, answer.body, " ".join(claims_of(answer.body)))
        elif answer is not None and outcome is Outcome.TAKEN:
            is_address = any(field.startswith("spec.clusterIP") for field in answer.refused_fields())
            refused = f"clusterip/{address}" if is_address else f"nodeport/{port}"
        self._record(Verb.CREATE, name, called, outcome, refused)
        return outcome in (None, Outcome.DONE)

    async def _delete(self, name: str) -> None:
        """Delete a Service, again if the outcome is unknown: a fixed port would be taken for the rest of the run."""
        outcome = None
        while outcome is None:
            called = time.monotonic()
            answer = await self.send("DELETE", path_of(SHARED, SERVICES, name))
            try:
                outcome = self.outcome(answer)
            except ValueError as error:
                self.refuse(error, f"delete of Service {name}")
                return
            self._record(Verb.DELETE, name, called, outcome)

    def _record(self, verb: Verb, name: str, called: float, outcome: Outcome | None, refused: str = "") -> None:
        returned = UNKNOWN if outcome is None else time.monotonic()
        write = ServiceWrite(self.number, called, returned, verb, f"{SHARED}/{name}", outcome, refused)
        self.recording.services.append(write)


class QuotaClient(Writer):
    """Creates a ConfigMap in the namespace with a quota, which may be used up, and deletes it again."""

    async def use_once(self) -> None:
        name = self.next_name()
        answer = await self.send("POST", path_of(LIMITED, CONFIG_MAPS), config_map(name, name))
        if answer is not None and answer.is_over_quota:
            self.recording.over_quota += 1
            await asyncio.sleep(_QUOTA_PAUSE)
            return
        if answer is not None and answer.status == 201:
            self.acknowledge(CONFIG_MAPS, answer.body, name)
        elif answer is not None and not answer.is_open:
            self.recording.unexpected.append(f"create in {LIMITED}: {answer.status} {answer.message}")
            return
        await asyncio.sleep(self.rng.uniform(0, _QUOTA_PAUSE))
        while True:
            answer = await self.send("DELETE", path_of(LIMITED, CONFIG_MAPS, name))
            if answer is not None and not answer.is_open:
                return


# Of eight clients: five use shared ConfigMaps, two create Services, one uses the quota.
_KINDS: tuple[type[Writer], ...] = (
    RegisterClient,
    ServiceClient,
    RegisterClient,
    QuotaClient,
    RegisterClient,
    ServiceClient,
    RegisterClient,
    RegisterClient,
)


def make_client(connections: Connections, recording: Recording, rng: random.Random, number: int) -> Writer:
    return _KINDS[number % len(_KINDS)](connections, recording, rng, number)
