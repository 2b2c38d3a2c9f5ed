"""The client of etcd's API: key-value operations, leases, maintenance and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from . import answers
from . import messages_pb2 as pb
from .authentication import Authentication
from .connection import Call, Connection, Metadata
from .errors import AnswerTooLarge, EtcdError, LeaderChanged, LeaseNotFound, OutcomeUnknown, Unavailable
from .failures import CallFailed, is_surely_not_done
from .members import Members
from .records import Alarm, RangeResult, Status, TxnResult
from .settings import EtcdSettings
from .watching import REQUIRE_LEADER, EtcdWatch

Attempt = Callable[[Connection], Awaitable[Any]]

# Keys of one page. Its answer has at most 64 MiB (connection.py), which 500 objects of Kubernetes hardly reach.
PAGE_LIMIT = 500


class EtcdClient:
    """A client with one connection to one of several members. Owners call `close`.

    Every method raises `EtcdError`s. One endpoint is used until it fails. Calls that may be repeated are then tried
    once at each of the others.
    """

    def __init__(self, settings: EtcdSettings) -> None:
        self._timeout = settings.timeout
        self._members = Members(settings)
        self._authentication = Authentication(settings)

    async def close(self) -> None:
        """End all connections, and with them the calls and watches."""
        await self._members.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """URLs of the members, as errors and `status` name them."""
        return tuple(endpoint.url for endpoint in self._members.endpoints)

    # --- Keys -------------------------------------------------------------------------------------------------------

    async def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        revision: int = 0,
        limit: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
        serializable: bool = False,
    ) -> RangeResult:
        """Read a key, or those from `key` up to `end`, which is not part of the range.

        `revision` 0: the newest. `limit` 0: all. `serializable`: the state that this member knows, perhaps
        an older one. Raises `Compacted` or `FutureRevision` for the revision, `AnswerTooLarge` beyond 64 MiB.
        """
        request = pb.RangeRequest(
            key=key,
            range_end=end,
            revision=revision,
            limit=limit,
            keys_only=keys_only,
            count_only=count_only,
            serializable=serializable,
        )
        return answers.range_result(await self._repeatable(lambda c: self._unary(c, c.range, request)))

    async def pages(
        self, key: bytes, end: bytes, *, revision: int = 0, limit: int = PAGE_LIMIT, keys_only: bool = False
    ) -> AsyncIterator[RangeResult]:
        """Read a large range in pages of at most `limit` keys, all at one revision, that of the first page if 0.

        Smaller pages are read when the objects are so large that a page exceeds the bound of an answer.
        """
        while True:
            try:
                page = await self.range(key, end, revision=revision, limit=limit, keys_only=keys_only)
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 4)
                continue
            revision = revision or page.revision
            yield page
            if not page.more or not page.kvs:
                return
            key = page.kvs[-1].key + b"\0"

    async def txn(
        self, compares: Sequence[pb.Compare], success: Sequence[pb.RequestOp], failure: Sequence[pb.RequestOp] = ()
    ) -> TxnResult:
        """Run the operations `success` if all comparisons hold, else `failure`, as one transaction.

        Comparisons and operations: requests.py. Raises `OutcomeUnknown` if it may have been done or not.
        """
        request = pb.TxnRequest(compare=compares, success=success, failure=failure)
        return answers.txn_result(await self._once(lambda c: self._unary(c, c.txn, request)))

    async def compact(self, revision: int) -> None:
        """Forget the states before the revision. Raises `Compacted` if they are forgotten already."""
        request = pb.CompactionRequest(revision=revision)
        await self._repeatable(lambda c: self._unary(c, c.compact, request))

    # --- Leases -----------------------------------------------------------------------------------------------------

    async def lease_grant(self, ttl_seconds: int) -> int:
        """Return a new lease. If the answer is lost, the lease expires by itself."""
        request = pb.LeaseGrantRequest(TTL=ttl_seconds)
        lease: int = (await self._repeatable(lambda c: self._unary(c, c.lease_grant, request))).ID
        return lease

    async def lease_revoke(self, lease: int) -> None:
        """Delete a lease with its keys; one that is gone is no error."""
        request = pb.LeaseRevokeRequest(ID=lease)
        try:
            await self._repeatable(lambda c: self._unary(c, c.lease_revoke, request))
        except LeaseNotFound:
            return

    async def lease_keep_alive(self, lease: int) -> int:
        """Renew a lease once; return its remaining seconds, 0 when it is gone."""
        remaining: int = await self._repeatable(lambda c: self._keep_alive(c, lease))
        return remaining

    async def _keep_alive(self, connection: Connection, lease: int) -> int:
        async def attempt(metadata: Metadata) -> int:
            stream = connection.lease_keep_alive
            call = connection.open_stream(stream, self._timeout, (*metadata, *REQUIRE_LEADER))
            try:
                await connection.answer(call.write(pb.LeaseKeepAliveRequest(ID=lease)))
                answer = await connection.answer(call.read())
            finally:
                call.cancel()
            if not isinstance(answer, pb.LeaseKeepAliveResponse):
                text = "the member ended the renewal of a lease"
                raise CallFailed(text, Unavailable(f"etcd at {connection.url}: {text}"))
            return max(0, answer.TTL)

        remaining: int = await self._authentication.authorized(connection, attempt)
        return remaining

    # --- Maintenance ------------------------------------------------------------------------------------------------

    async def status(self, endpoint: str | None = None) -> Status:
        """Return the status of the member that is used now, or of the one at `endpoint`."""
        if endpoint is not None:
            return await self._members.status(endpoint)
        status: Status = await self._repeatable(lambda c: c.status(self._timeout))
        return status

    async def check_endpoints(self) -> None:
        """Ask all endpoints for their cluster. Raises `ForeignCluster` if those that answer are not of one."""
        await self._members.check_clusters()

    async def alarms(self) -> list[Alarm]:
        """Return the alarms of all members."""
        request = pb.AlarmRequest(action=pb.AlarmRequest.GET)
        return answers.alarms(await self._repeatable(lambda c: self._unary(c, c.alarm, request)))

    # --- Watches ----------------------------------------------------------------------------------------------------

    async def watch(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        start_revision: int = 0,
        progress_notify: bool = True,
        prev_kv: bool = False,
    ) -> EtcdWatch:
        """Watch a key, or those from `key` up to `end`, from a revision on, which is included; 0: from now on.

        `progress_notify`: etcd sends the revision every ten minutes if there are no events. The watch exists when this
        returns. A compacted start is `Compacted`, from the watch.
        """
        request = pb.WatchCreateRequest(
            key=key,
            range_end=end,
            start_revision=start_revision,
            progress_notify=progress_notify,
            prev_kv=prev_kv,
            fragment=True,
        )
        watch: EtcdWatch = await self._repeatable(lambda c: self._watch(c, request))
        return watch

    async def _watch(self, connection: Connection, request: pb.WatchCreateRequest) -> EtcdWatch:
        async def attempt(metadata: Metadata) -> EtcdWatch:
            call = connection.open_stream(connection.watch, None, (*metadata, *REQUIRE_LEADER))
            watch = EtcdWatch(connection, call)
            await watch.create(request)
            return watch

        watch: EtcdWatch = await self._authentication.authorized(connection, attempt)
        return watch

    # --- Attempts ---------------------------------------------------------------------------------------------------

    async def _unary(self, connection: Connection, call: Call, request: Any) -> Any:
        return await self._authentication.call(connection, call, request, self._timeout)

    async def _repeatable(self, attempt: Attempt) -> Any:
        """Return the result of a call that may run several times; other members are tried when one does not answer."""
        return await self._attempts(attempt, lambda failure: True)

    async def _once(self, attempt: Attempt) -> Any:
        """Return the result of a call that must not run twice. Raises `OutcomeUnknown`."""
        return await self._attempts(attempt, is_surely_not_done)

    async def _attempts(self, attempt: Attempt, may_repeat: Callable[[CallFailed], bool]) -> Any:
        problem: EtcdError | None = None
        for _ in range(len(self._members.endpoints) + 1):
            connection = await self._members.connection()
            try:
                return await attempt(connection)
            except CallFailed as failure:
                problem = failure.error
                if not isinstance(problem, Unavailable):
                    raise problem from None
                if not isinstance(problem, LeaderChanged):
                    self._members.leave(connection)
                if not may_repeat(failure):
                    raise OutcomeUnknown(f"{problem}; whether the write was done is unknown") from None
        raise problem or Unavailable(f"no endpoint of etcd answers: {self._members.describe()}")
