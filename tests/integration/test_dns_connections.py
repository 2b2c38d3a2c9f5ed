"""Upstreams asked by TCP and TLS: who they have to prove to be, and connections that are used again."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import dnslib
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridgehead.client import ApiClient
from bridgehead.dns.config import DnsConfig, ForwardSettings, Server, Tls
from bridgehead.dns.corefile import Sources, read_corefile
from bridgehead.dns.errors import BadPacket, ConfigInvalid, UpstreamFailed
from bridgehead.dns.messages import wire
from bridgehead.dns.upstreams.connection_pool import Connections
from bridgehead.dns.upstreams.forward import Forwarder, OutgoingQuery

from .api_world import DEADLINE, api_world, until
from .dns_world import FakeUpstream, always, data_of, dns

pytestmark = pytest.mark.integration

NAME = "dns.example"
EXAMPLE = "www.example.com. 60 A 192.0.2.1"
QUESTION = wire.question_key(wire.encode_name("www.example.com"), wire.TYPES["A"])


def make_certificate(directory: Path, file: str, *names: x509.GeneralName) -> tuple[str, str]:
    """The paths of a certificate that vouches for itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, file)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / f"{file}.crt", directory / f"{file}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(paths[0]), str(paths[1])


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Certificate and key of a server called NAME at 127.0.0.1."""
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return make_certificate(tmp_path, "server", x509.DNSName(NAME), address)


def context_of(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


@asynccontextmanager
async def asking(*servers: Server, **settings: object) -> AsyncIterator[Forwarder]:
    """A forwarder with as much time as a busy machine needs."""
    options = ForwardSettings(**{"health_seconds": 3600, **settings})  # type: ignore[arg-type]
    forwarder = Forwarder(servers, lambda: 0.0, options, attempt_seconds=DEADLINE, total_seconds=DEADLINE)
    try:
        yield forwarder
    finally:
        forwarder.close()


@pytest.mark.parametrize("name", [NAME, ""])
async def test_one_connection_serves_many_queries(files: tuple[str, str], name: str) -> None:
    """The server's certificate is for its name, or for its address."""
    async with FakeUpstream(always(EXAMPLE), tls=context_of(*files), patience=100) as upstream:
        server = upstream.server._replace(tls=Tls(name, authority=files[0]))
        async with asking(server) as forwarder:
            for _ in range(3):
                found = await forwarder.ask(OutgoingQuery(QUESTION))
                assert (found.rcode, found.answer.head[4:6]) == (wire.NOERROR, b"\0\1")
            assert (upstream.connections, len(upstream.asked)) == (1, 3)
            assert upstream.ports == [], "nothing by UDP"
        await until(lambda: asyncio.sleep(0, not upstream.open))


async def test_a_server_without_a_valid_certificate_gets_no_query(files: tuple[str, str], tmp_path: Path) -> None:
    other, _ = make_certificate(tmp_path, "other", x509.DNSName(NAME))
    async with FakeUpstream(always(EXAMPLE), tls=context_of(*files)) as upstream:
        for tls in (Tls("other.example", files[0]), Tls(NAME, other), Tls(NAME)):
            async with asking(upstream.server._replace(tls=tls)) as forwarder:
                with pytest.raises(UpstreamFailed):
                    await forwarder.ask(OutgoingQuery(QUESTION))
                assert list(forwarder.failures.values()) == [1]
        assert upstream.asked == []
        async with asking(upstream.server._replace(tls=Tls(NAME, files[0]))) as forwarder:
            assert (await forwarder.ask(OutgoingQuery(QUESTION))).rcode == wire.NOERROR


async def test_a_client_certificate_is_presented_to_the_upstream(files: tuple[str, str], tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "client", x509.DNSName("us.example"))
    context = context_of(*files)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate)
    async with FakeUpstream(always(EXAMPLE), tls=context) as upstream:
        ours = Tls(NAME, files[0], certificate, key)
        for tls, is_answered in ((Tls(NAME, files[0]), False), (ours, True)):
            async with asking(upstream.server._replace(tls=tls)) as forwarder:
                if is_answered:
                    assert (await forwarder.ask(OutgoingQuery(QUESTION))).rcode == wire.NOERROR
                else:
                    with pytest.raises(UpstreamFailed):
                        await forwarder.ask(OutgoingQuery(QUESTION))
    assert len(upstream.asked) == 1


@pytest.mark.parametrize("is_tls", [True, False])
async def test_a_connection_closed_by_the_upstream_is_no_failure(files: tuple[str, str], is_tls: bool) -> None:
    tls = Tls(NAME, files[0]) if is_tls else None
    async with (
        FakeUpstream(always(EXAMPLE), tls=context_of(*files) if is_tls else None, patience=2) as upstream,
        asking(upstream.server._replace(tls=tls), tcp_only=True) as forwarder,
    ):
        for _ in range(5):
            assert (await forwarder.ask(OutgoingQuery(QUESTION))).rcode == wire.NOERROR
        assert (upstream.connections, len(upstream.asked), upstream.ports) == (3, 5, [])
        assert list(forwarder.failures.values()) == [0]


async def test_concurrent_queries_use_separate_connections(files: tuple[str, str]) -> None:
    async with (
        FakeUpstream(always(EXAMPLE), tls=context_of(*files), patience=100) as upstream,
        asking(upstream.server._replace(tls=Tls(NAME, files[0]))) as forwarder,
    ):
        for _ in range(2):
            found = await asyncio.gather(*(forwarder.ask(OutgoingQuery(QUESTION)) for _ in range(20)))
            assert {one.rcode for one in found} == {wire.NOERROR}
        assert upstream.connections == 20


async def test_a_connection_with_a_wrong_reply_is_not_reused() -> None:
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        (reply,) = always(EXAMPLE)(query, over_tcp)
        return [bytes((reply[0] ^ 1, *reply[1:]))]

    async with FakeUpstream(answer, patience=100) as upstream:
        connections = Connections((upstream.server,))
        query = bytes(dnslib.DNSRecord.question("www.example.com").pack())
        for count in (1, 2):
            with pytest.raises(BadPacket, match="another id"):
                await connections.exchange(upstream.server, query)
            assert upstream.connections == count
        connections.close()


async def test_idle_connections_are_closed() -> None:
    query = bytes(dnslib.DNSRecord.question("www.example.com").pack())
    begun, released = asyncio.Event(), asyncio.Event()

    class Slow(FakeUpstream):
        async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            begun.set()
            await released.wait()
            await super()._converse(reader, writer)

    async with Slow(always(EXAMPLE), patience=100) as upstream:
        released.set()
        short = Connections((upstream.server,), idle_seconds=0)
        await short.exchange(upstream.server, query)
        await until(lambda: asyncio.sleep(0, not upstream.open))
        begun.clear()
        released.clear()
        connections = Connections((upstream.server,))
        question = asyncio.create_task(connections.exchange(upstream.server, query))
        await begun.wait()
        connections.close()  # as when another configuration takes over
        released.set()
        assert dnslib.DNSRecord.parse(await question).rr
        await until(lambda: asyncio.sleep(0, not upstream.open))


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        (Tls(authority="/nowhere"), "/nowhere: No such file or directory"),
        (Tls(authority="/dev/null"), "/dev/null: not a certificate and its key"),
        (Tls(certificate="/nowhere", key="/nowhere"), "/nowhere, /nowhere: No such file or directory"),
    ],
)
def test_invalid_certificate_files_are_refused(tls: Tls, message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        Connections((Server("127.0.0.1", 853, tls),))


async def test_the_corefile_configures_upstreams_over_tls(files: tuple[str, str]) -> None:
    async with FakeUpstream(always(EXAMPLE), tls=context_of(*files), patience=100) as upstream:
        text = f"""
.:53 {{
    kubernetes cluster.local
    forward . tls://{upstream.server} {{
        tls {files[0]}
        tls_servername {NAME}
    }}
}}
"""
        config = read_corefile(text, DnsConfig(), Sources()).config
        async with (
            api_world() as world,
            ApiClient(world.config) as client,
            dns(client, upstreams=config.upstreams) as port,
        ):
            assert await until(lambda: data_of(port, "www.example.com")) == ["192.0.2.1"]
    assert upstream.ports == []
