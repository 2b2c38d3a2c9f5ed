"""Choice of the member that serves the next call."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from .connection import Connection
from .errors import EtcdError, ForeignCluster, TooOldEtcd, Unavailable, UnusableMember
from .failures import CallFailed
from .handshakes import reason_of_failure
from .records import Status
from .settings import Endpoint, EtcdSettings, parse_endpoints
from .supervision import Supervision
from .tls import TlsFiles
from .versions import is_supported

_CONNECT_SECONDS = 3.0
# The next endpoint is tried, too, when one has not answered for this time.
_PATIENCE_SECONDS = 0.5
_OTHER_SECONDS = 1.0
_ENDED_AT_ONCE = ("Socket closed", "Connection reset by peer")


class Members:
    """The endpoints, of which one is used until it fails; then the next one in their order is tried."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings
        self.endpoints = parse_endpoints(settings)
        self._tls = TlsFiles(settings)
        self._timeout = min(_CONNECT_SECONDS, settings.timeout)
        self._next = 0  # the index of the endpoint to begin with
        self._current: Connection | None = None
        self._connections: dict[Endpoint, Connection] = {}
        self._choosing = asyncio.Lock()
        self._cluster_id = 0

    async def connection(self) -> Connection:
        """Return a connection to a member that answers. Raises `EtcdError` if there is none."""
        if (current := self._current) is not None and current.is_ready():
            return current
        async with self._choosing:
            if (current := self._current) is None or not current.is_ready():
                current = self._current = await self._choose()
            return current

    def leave(self, connection: Connection) -> None:
        """Begin with another member at the next call, because a call on the connection has failed."""
        if connection is self._current:
            self._current = None
            self._next = (self.endpoints.index(connection.endpoint) + 1) % len(self.endpoints)

    async def _choose(self) -> Connection:
        """Return a connection to the first endpoint in the order that answers and has a leader.

        An endpoint that does not answer soon keeps nobody from the next one.
        """
        rest = [*self.endpoints[self._next :], *self.endpoints[: self._next]]
        problems: list[EtcdError] = []
        leaderless: Connection | None = None
        attempts: set[asyncio.Task[tuple[Connection, Status]]] = set()
        try:
            while rest or attempts:
                if rest:
                    attempts.add(asyncio.create_task(self._connect(rest.pop(0))))
                patience = _PATIENCE_SECONDS if rest or leaderless else None
                done, attempts = await asyncio.wait(attempts, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                problems += [error for attempt in done if isinstance(error := attempt.exception(), EtcdError)]
                for attempt in done:
                    if not isinstance(attempt.exception(), EtcdError):
                        connection, status = attempt.result()
                        if status.leader:
                            return connection
                        leaderless = leaderless or connection
                if not (done or rest):
                    break
        finally:
            for attempt in attempts:
                attempt.cancel()
        if leaderless is not None:  # there is an election, or it can serve what needs no leader
            return leaderless
        raise _no_member(problems)

    async def _has_other(self, endpoint: Endpoint) -> bool:
        """Return whether another member answers and has a leader."""
        asked = [
            asyncio.create_task(self.status(other.url, _OTHER_SECONDS)) for other in self.endpoints if other != endpoint
        ]
        try:
            for answer in asyncio.as_completed(asked):
                with contextlib.suppress(EtcdError):
                    if (await answer).leader:
                        return True
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return False

    async def _connect(self, endpoint: Endpoint) -> tuple[Connection, Status]:
        """Return a connection that has just answered. Raises `EtcdError`."""
        connection = self._connections.get(endpoint)
        if connection is None or not connection.is_ready():
            await self._drop(endpoint)
            supervision = Supervision(partial(self._has_other, endpoint))
            connection = self._connections[endpoint] = Connection(endpoint, self._tls, supervision.run)
        try:
            status = await connection.status(self._timeout)
        except CallFailed as failure:
            await self._drop(endpoint)
            raise await self._explain(failure.error, endpoint) from None
        self._check(status)
        return connection, status

    async def _explain(self, error: EtcdError, endpoint: Endpoint) -> EtcdError:
        """Return the error of a connection that could not be made, with its reason if that is TLS."""
        if type(error) is not Unavailable:
            return error
        if endpoint.is_tls and (problem := await reason_of_failure(endpoint, self._settings)) is not None:
            return problem
        if any(text in str(error) for text in _ENDED_AT_ONCE):  # a server that expects TLS, or the contrary
            other = "plain HTTP, use http://" if endpoint.is_tls else "TLS, use https://"
            return Unavailable(f"{error}; if it serves {other}")
        return error

    def _check(self, status: Status) -> None:
        if not is_supported(status.version):
            raise TooOldEtcd(f"etcd at {status.endpoint} has the version {status.version}; upgrade it to 3.4 or newer")
        if status.is_learner:
            raise UnusableMember(
                f"etcd at {status.endpoint} is a learner; promote it, or leave it out of the endpoints"
            )
        if self._cluster_id and status.cluster_id != self._cluster_id:
            raise ForeignCluster(
                f"etcd at {status.endpoint} belongs to the cluster {status.cluster_id:x}, the members before to "
                f"{self._cluster_id:x}; correct the endpoints, or restart to use the other cluster"
            )
        self._cluster_id = status.cluster_id

    async def check_clusters(self) -> None:
        """Raise `ForeignCluster` if endpoints are of different clusters. An endpoint that does not answer may be."""
        if len(self.endpoints) < 2:
            return
        answers = await asyncio.gather(
            *(self.status(endpoint.url) for endpoint in self.endpoints), return_exceptions=True
        )
        found = [answer for answer in answers if isinstance(answer, Status)]
        for status in found[1:]:
            if status.cluster_id != found[0].cluster_id:
                raise ForeignCluster(
                    f"etcd at {found[0].endpoint} belongs to the cluster {found[0].cluster_id:x}, and the one at"
                    f" {status.endpoint} to {status.cluster_id:x}; correct the endpoints"
                )

    async def status(self, url: str, timeout: float | None = None) -> Status:
        """Return the status of one member, also of one that cannot be used. Raises `EtcdError`."""
        endpoint = next((endpoint for endpoint in self.endpoints if endpoint.url == url), None)
        if endpoint is None:
            raise EtcdError(f"{url} is no endpoint of this client; use one of {self.describe()}")
        connection = self._connections.get(endpoint)
        is_own = connection is None or not connection.is_ready()
        if connection is None or is_own:
            connection = Connection(endpoint, self._tls)
        try:
            return await connection.status(timeout or self._timeout)
        except CallFailed as failure:
            raise failure.error from None
        finally:
            if is_own:
                await connection.close()

    def describe(self) -> str:
        return ", ".join(endpoint.url for endpoint in self.endpoints)

    async def _drop(self, endpoint: Endpoint) -> None:
        if (connection := self._connections.pop(endpoint, None)) is not None:
            await connection.close()

    async def close(self) -> None:
        for endpoint in list(self._connections):
            await self._drop(endpoint)


def _no_member(problems: list[EtcdError]) -> EtcdError:
    """Return the error for all endpoints: the first that the operator has to repair, or that none can be reached."""
    for problem in problems:
        if not isinstance(problem, Unavailable):
            return problem
    if len(problems) == 1:
        return problems[0]
    return Unavailable(f"no endpoint of etcd answers: {'; '.join(map(str, problems))}")
