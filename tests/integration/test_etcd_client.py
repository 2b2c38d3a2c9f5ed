"""The etcd client against real etcds."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import socket
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bridgehead.storage.etcd.client import EtcdSettings, open_client
from bridgehead.storage.etcd.client.errors import (
    AnswerTooLarge,
    CertificateProblem,
    Compacted,
    EtcdError,
    ForeignCluster,
    FutureRevision,
    InvalidCredentials,
    NoSpace,
    NotEtcd,
    OutcomeUnknown,
    PermissionDenied,
    TooLarge,
    Unavailable,
)
from bridgehead.storage.etcd.client.etcd_client import EtcdClient
from bridgehead.storage.etcd.client.records import DeleteAnswer, PutAnswer, RangeResult, WatchBatch
from bridgehead.storage.etcd.client.requests import (
    create_revision_equals,
    delete,
    exists,
    get,
    lease_equals,
    mod_revision_equals,
    mod_revision_less,
    prefix_end,
    put,
    value_equals,
    version_equals,
)
from bridgehead.storage.etcd.client.watching import EtcdWatch

from .api_world import hold_port
from .certificates import Authority
from .etcd_server import EtcdCluster, EtcdMember

pytestmark = [pytest.mark.integration, pytest.mark.needs("etcd", "etcdctl")]
DEADLINE = 60.0
_numbers = itertools.count()


@contextlib.asynccontextmanager
async def client_of(*urls: str, **settings: Any) -> AsyncIterator[EtcdClient]:
    client = open_client(EtcdSettings(endpoints=urls, **settings))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with EtcdCluster(tmp_path_factory.mktemp("etcd")).running() as cluster:
        yield cluster


@pytest.fixture
async def client(etcd):
    async with client_of(*etcd.client_urls) as client:
        yield client


@pytest.fixture
def prefix():
    """Keys of this test alone."""
    return b"/test%d/" % next(_numbers)


async def next_batch(watch: EtcdWatch) -> WatchBatch:
    async with asyncio.timeout(DEADLINE):
        return await anext(watch)


async def read_all(watch: EtcdWatch) -> None:
    """Read batches until the watch ends with an error."""
    while True:
        await next_batch(watch)


async def set_value(client: EtcdClient, key: bytes, value: bytes) -> int:
    """Write a key as often as it takes while members come and go; return the revision."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return (await client.txn([], [put(key, value)])).revision
            except (OutcomeUnknown, Unavailable):
                await asyncio.sleep(0.05)


async def write_until_an_error(client: EtcdClient, key: bytes, value: bytes) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            await client.txn([], [put(key, value)])


# --- Keys ---------------------------------------------------------------------------------------------------------


async def test_a_range_has_keys_values_and_revisions(client, prefix):
    first = (await client.txn([], [put(prefix + b"a", b"1")])).revision
    second = (await client.txn([], [put(prefix + b"a", b"2"), put(prefix + b"b", b"\0\xff")])).revision
    result = await client.range(prefix, prefix_end(prefix))
    assert [(kv.key, kv.value, kv.create_revision, kv.mod_revision, kv.version) for kv in result.kvs] == [
        (prefix + b"a", b"2", first, second, 2),
        (prefix + b"b", b"\0\xff", second, second, 1),
    ]
    assert (result.count, result.more, result.revision >= second) == (2, False, True)
    assert [kv.value for kv in (await client.range(prefix + b"a", revision=first)).kvs] == [b"1"]
    limited = await client.range(prefix, prefix_end(prefix), limit=1, keys_only=True, serializable=True)
    assert ([(kv.key, kv.value) for kv in limited.kvs], limited.more) == ([(prefix + b"a", b"")], True)
    counted = await client.range(prefix, prefix_end(prefix), count_only=True)
    assert (counted.count, counted.kvs) == (2, [])


async def test_pages_are_of_one_revision(client, prefix):
    for start in range(0, 250, 50):
        await client.txn([], [put(prefix + b"%04d" % number, b"x") for number in range(start, start + 50)])
    seen = []
    async for page in client.pages(prefix, prefix_end(prefix), limit=100):
        seen.append([kv.key for kv in page.kvs])
        await client.txn([], [put(prefix + b"9999", b"later")])
    assert [len(keys) for keys in seen] == [100, 100, 50]
    assert [*itertools.chain(*seen)] == [prefix + b"%04d" % number for number in range(250)]


async def test_an_answer_beyond_the_bound_is_an_error_and_pages_shrink(client, prefix):
    value = bytes(1_400_000)
    for number in range(60):
        await client.txn([], [put(prefix + b"%d" % number, value)])
    with pytest.raises(AnswerTooLarge, match="ask for fewer keys"):
        await client.range(prefix, prefix_end(prefix))
    assert sum([len(page.kvs) async for page in client.pages(prefix, prefix_end(prefix))]) == 60
    await client.txn([], [delete(prefix, prefix_end(prefix))])


async def test_a_transaction_compares_and_answers(client, prefix):
    key = prefix + b"a"
    created = await client.txn([create_revision_equals(key, 0)], [put(key, b"1")], [get(key)])
    assert (created.succeeded, created.answers) == (True, [PutAnswer(None)])
    taken = await client.txn([create_revision_equals(key, 0)], [put(key, b"2")], [get(key)])
    assert not taken.succeeded
    (found,) = taken.answers
    assert isinstance(found, RangeResult)
    assert [(kv.value, kv.mod_revision) for kv in found.kvs] == [(b"1", created.revision)]
    updated = await client.txn(
        [mod_revision_equals(key, created.revision), value_equals(key, b"1"), version_equals(key, 1), exists(key)],
        [put(key, b"3", prev_kv=True)],
    )
    (answer,) = updated.answers
    assert updated.succeeded
    assert isinstance(answer, PutAnswer)
    assert answer.previous is not None
    assert answer.previous.value == b"1"
    removed = await client.txn(
        [mod_revision_less(key, updated.revision + 1), lease_equals(key, 0)], [delete(key, prev_kv=True), get(key)]
    )
    deleted, gone = removed.answers
    assert isinstance(deleted, DeleteAnswer)
    assert (deleted.deleted, [kv.value for kv in deleted.previous]) == (1, [b"3"])
    assert isinstance(gone, RangeResult)
    assert gone.kvs == []


async def test_a_request_that_is_too_large_is_refused(client, prefix):
    with pytest.raises(TooLarge, match=r"request is too large; raise etcd's --max-request-bytes"):
        await client.txn([], [put(prefix, bytes(2_000_000))])


async def test_compacted_and_future_revisions(client, prefix):
    old = (await client.txn([], [put(prefix, b"1")])).revision
    new = (await client.txn([], [put(prefix, b"2")])).revision
    await client.compact(new)
    with pytest.raises(Compacted):
        await client.compact(new)
    with pytest.raises(Compacted):
        await client.range(prefix, revision=old)
    with pytest.raises(FutureRevision):
        await client.range(prefix, revision=new + 1000)
    watch = await client.watch(prefix, start_revision=old)
    with pytest.raises(Compacted) as caught:
        await next_batch(watch)
    assert caught.value.compact_revision == new


# --- Leases, maintenance ------------------------------------------------------------------------------------------


async def test_keys_go_with_their_lease(client, prefix):
    lease = await client.lease_grant(600)
    await client.txn([], [put(prefix, b"1", lease)])
    assert (await client.range(prefix)).kvs[0].lease == lease
    assert await client.lease_keep_alive(lease) == 600
    await client.lease_revoke(lease)
    assert (await client.range(prefix)).kvs == []
    assert await client.lease_keep_alive(lease) == 0
    await client.lease_revoke(lease)  # is no error


async def test_status_and_alarms(etcd, client):
    status = await client.status()
    again = await client.status(etcd.client_urls[0])
    assert status == again._replace(db_size=status.db_size, db_size_in_use=status.db_size_in_use)  # it frees pages
    assert status.version.startswith("3.")
    assert status.leader == status.member_id != 0
    assert (status.is_learner, status.errors, await client.alarms()) == (False, (), [])
    with pytest.raises(EtcdError, match="no endpoint of this client"):
        await client.status("http://127.0.0.1:1")


async def test_a_full_database_is_named(tmp_path):
    with EtcdCluster(tmp_path, options={"quota-backend-bytes": 2**20}).running() as small:
        async with client_of(*small.client_urls) as client:

            async def fill() -> None:
                for number in range(1000):
                    await client.txn([], [put(b"%d" % number, bytes(100_000))])

            with pytest.raises(NoSpace, match="etcdctl alarm disarm"):
                await fill()
            assert [alarm.kind for alarm in await client.alarms()] == ["NOSPACE"]
            assert "NOSPACE" in "".join((await client.status()).errors)
            assert (await client.range(b"0")).count == 1  # reads go on


# --- Watches ------------------------------------------------------------------------------------------------------


async def test_a_watch_has_every_event_once_and_in_order(client, prefix):
    start = (await client.txn([], [put(prefix + b"a", b"0")])).revision
    watch = await client.watch(prefix, prefix_end(prefix), start_revision=start, prev_kv=True)
    last = (await client.txn([], [put(prefix + b"a", b"1"), put(prefix + b"b", b"1")])).revision
    last = (await client.txn([], [delete(prefix + b"a")])).revision
    events = []
    while len(events) < 4:
        batch = await next_batch(watch)
        assert not batch.is_progress
        events += batch.events
    assert [(each.is_delete, each.kv.key[-1:], each.kv.value) for each in events] == [
        (False, b"a", b"0"),
        (False, b"a", b"1"),
        (False, b"b", b"1"),
        (True, b"a", b""),
    ]
    assert [each.prev_kv and each.prev_kv.value for each in events] == [None, b"0", None, b"1"]
    assert events[-1].kv.mod_revision == last
    await watch.close()


async def test_progress_can_be_asked_for(client, prefix):
    watch = await client.watch(prefix)
    revision = (await client.txn([], [put(b"/elsewhere", b"")])).revision
    await watch.request_progress()
    batch = await next_batch(watch)
    assert (batch.is_progress, batch.revision >= revision) == (True, True)


async def test_a_watch_that_is_closed_ends_without_an_error(client, prefix):
    watch = await client.watch(prefix)

    async def read() -> list[WatchBatch]:
        return [batch async for batch in watch]

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)  # let it wait
    await watch.close()
    assert await asyncio.wait_for(reader, DEADLINE) == []


async def test_a_large_revision_arrives_whole_in_one_batch(client, prefix):
    """etcd divides its messages above --max-request-bytes; with the previous values, an update is twice as large."""
    await client.txn([], [put(prefix + b"%d" % number, bytes(140_000)) for number in range(10)])
    start = (await client.txn([], [put(prefix + b"%d" % number, bytes(140_000)) for number in range(10)])).revision
    await client.txn([], [put(prefix + b"end", b"")])
    watch = await client.watch(prefix, prefix_end(prefix), start_revision=start, prev_kv=True)
    revisions = []
    while len(revisions) < 11:
        batch = await next_batch(watch)
        revisions += [each.kv.mod_revision for each in batch.events]
        assert len(revisions) >= 10
    assert revisions == [start] * 10 + [start + 1]
    await watch.close()
    await client.txn([], [delete(prefix, prefix_end(prefix))])


# --- Failures of members ------------------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path):
    with EtcdCluster(tmp_path, size=3).running() as cluster:
        yield cluster


def member_at(cluster: EtcdCluster, url: str) -> EtcdMember:
    return next(member for member in cluster.members if member.client_url == url)


async def test_writes_and_watches_go_on_at_another_member(three, prefix):
    """A member is killed, another hangs; each time the watch ends, and the next call is served."""
    async with client_of(*three.client_urls, timeout=5.0) as client:
        revision = 0
        for number, fail in enumerate((EtcdMember.kill, EtcdMember.pause)):
            watch = await client.watch(prefix, prefix_end(prefix), start_revision=revision + 1)
            victim = member_at(three, watch.endpoint)
            fail(victim)
            with pytest.raises(Unavailable):
                await read_all(watch)
            with pytest.raises(Unavailable):
                await watch.request_progress()
            revision = await set_value(client, prefix + b"%d" % number, b"x")
            assert (await client.status()).endpoint != victim.client_url
            assert (await client.range(prefix, prefix_end(prefix))).count == number + 1
            victim.resume()
            three.start_member(victim)
            await asyncio.to_thread(victim.wait)


async def leader_and_follower(client: EtcdClient, cluster: EtcdCluster) -> tuple[EtcdMember, EtcdMember]:
    statuses = [await client.status(url) for url in cluster.client_urls]
    leading = next(one for one in statuses if one.leader == one.member_id)
    following = next(one for one in statuses if one.leader != one.member_id)
    return member_at(cluster, leading.endpoint), member_at(cluster, following.endpoint)


async def test_a_write_that_is_lost_with_the_leader_is_given_up_when_there_is_another(three, prefix):
    """etcd 3.4 would answer after 7 s that the request has timed out."""
    async with client_of(*three.client_urls) as client:
        leader, follower = await leader_and_follower(client, three)
    async with client_of(follower.client_url) as client:
        await client.txn([], [put(prefix, b"1")])
        leader.pause()
        try:
            with pytest.raises(OutcomeUnknown, match="leader changed"):
                await write_until_an_error(client, prefix, b"2")
            async with asyncio.timeout(DEADLINE):
                assert (await client.range(prefix)).kvs[0].value in (b"1", b"2")
        finally:
            leader.resume()


async def test_a_write_without_an_answer_has_an_unknown_outcome(tmp_path, prefix):
    with EtcdCluster(tmp_path).running() as cluster:
        (member,) = cluster.members
        async with client_of(member.client_url, timeout=1.0) as client:
            await client.txn([], [put(prefix, b"1")])
            member.pause()
            with pytest.raises(OutcomeUnknown, match="whether the write was done is unknown"):
                await client.txn([], [put(prefix, b"2")])
            with pytest.raises(Unavailable, match="did not answer in time"):
                await client.txn([], [put(prefix, b"3")])  # was not sent: the member does not answer the probe before
            member.resume()
            assert (await client.range(prefix)).kvs[0].value in (b"1", b"2")
            member.kill()
            with pytest.raises(Unavailable, match="Connection refused"):
                await client.txn([], [put(prefix, b"4")])
            cluster.start()
            assert (await client.range(prefix)).kvs[0].value in (b"1", b"2")


async def test_a_foreign_cluster_is_refused(etcd, tmp_path):
    with EtcdCluster(tmp_path).running() as other:
        async with client_of(*etcd.client_urls, *other.client_urls, timeout=2.0) as client:
            await client.status()
            etcd.members[0].pause()
            try:
                with pytest.raises(ForeignCluster, match="belongs to the cluster"):
                    await client.range(b"a")
            finally:
                etcd.members[0].resume()


# --- Others behind the port ---------------------------------------------------------------------------------------


class _WebPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)

    def log_message(self, format: str, *args: object) -> None: ...


async def test_another_server_is_no_etcd():
    with HTTPServer(("127.0.0.1", 0), _WebPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            async with client_of(f"http://127.0.0.1:{server.server_port}") as client:
                with pytest.raises(NotEtcd, match="is no etcd"):
                    await client.status()
        finally:
            server.shutdown()
            thread.join()


async def test_ports_without_a_server_and_with_a_silent_one():
    with contextlib.closing(hold_port()) as free, socket.create_server(("127.0.0.1", 0)) as silent:
        urls = [f"http://127.0.0.1:{each.getsockname()[1]}" for each in (free, silent)]
        async with client_of(*urls, timeout=0.5) as client:
            with pytest.raises(Unavailable) as caught:
                await client.txn([], [put(b"a", b"1")])
    assert str(caught.value).startswith("no endpoint of etcd answers: ")
    assert all(url in str(caught.value) for url in urls)


# --- TLS and authentication ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with EtcdCluster(tmp_path_factory.mktemp("secure"), tls=True).running() as cluster:
        yield cluster


def files_of(cluster: EtcdCluster, client: str = "client") -> dict[str, Path]:
    here = cluster.directory
    return {"ca_file": here / "ca.crt", "cert_file": here / f"{client}.crt", "key_file": here / f"{client}.key"}


async def test_tls_with_a_client_certificate(secure):
    async with client_of(*secure.client_urls, **files_of(secure)) as client:
        await client.txn([], [put(b"a", b"1")])
        watch = await client.watch(b"a", start_revision=1)
        assert [each.kv.value for each in (await next_batch(watch)).events] == [b"1"]


async def test_certificate_problems_are_named(secure, tmp_path):
    (url,) = secure.client_urls
    files = files_of(secure)

    async def problem(url: str, **settings: Any) -> str:
        async with client_of(url, **settings) as client:
            with pytest.raises(EtcdError) as caught:
                await client.status()
        assert isinstance(caught.value, (CertificateProblem, NotEtcd)), repr(caught.value)
        return str(caught.value)

    Authority(tmp_path, "another-ca").issue("client", "client")
    assert "unknown authority" in await problem(url, **files | {"ca_file": tmp_path / "ca.crt"})
    foreign = {"cert_file": tmp_path / "client.crt", "key_file": tmp_path / "client.key"}
    assert "client" in await problem(url, **files | foreign)
    assert "client certificate" in await problem(url, ca_file=files["ca_file"])
    assert "another name" in await problem(url.replace("127.0.0.1", "localhost"), **files)
    assert "No such file" in await problem(url, **files | {"ca_file": tmp_path / "missing"})
    assert "no certificate in PEM" in await problem(url, **files | {"ca_file": files["key_file"]})


async def test_a_secure_server_behind_http(secure):
    (url,) = secure.client_urls
    async with client_of(url.replace("https", "http")) as client:
        with pytest.raises(Unavailable, match="if it serves TLS, use https://"):
            await client.status()


async def test_expired_certificates_are_named(secure, tmp_path):
    async with client_of(*secure.client_urls, **files_of(secure, "expired")) as client:
        with pytest.raises(CertificateProblem, match=r"expired at .*Z; renew it"):
            await client.status()
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    with EtcdCluster(tmp_path, tls=True, certificate_until=yesterday).running() as cluster:
        async with client_of(*cluster.client_urls, **files_of(cluster)) as client:
            with pytest.raises(CertificateProblem, match="server's certificate has expired"):
                await client.status()


async def test_a_plain_server_behind_https(etcd, tmp_path):
    Authority(tmp_path)
    (url,) = etcd.client_urls
    async with client_of(url.replace("http", "https"), ca_file=tmp_path / "ca.crt") as client:
        with pytest.raises(Unavailable, match="if it serves plain HTTP, use http://"):
            await client.status()


async def test_users_and_passwords(tmp_path, prefix):
    with EtcdCluster(tmp_path, options={"auth-token-ttl": 1}).running() as cluster:
        async with (
            client_of(*cluster.client_urls, user="root", password="right") as root,
            client_of(*cluster.client_urls, user="root", password="wrong") as wrong,
            client_of(*cluster.client_urls, user="alice", password="a") as alice,
            client_of(*cluster.client_urls) as nobody,
        ):
            await root.txn([], [put(prefix, b"1")])  # authentication is not enabled yet
            cluster.enable_authentication("right")
            await root.txn([], [put(prefix, b"2")])
            cluster.etcdctl("user", "add", "alice:a", user="root:right")
            await root.txn([], [put(prefix, b"3")])  # the users have changed
            watch = await root.watch(prefix, start_revision=1)
            assert (await next_batch(watch)).events
            for client, error in ((wrong, InvalidCredentials), (nobody, InvalidCredentials), (alice, PermissionDenied)):
                with pytest.raises(error):
                    await client.range(prefix)
                with pytest.raises(error):
                    await client.watch(prefix)
