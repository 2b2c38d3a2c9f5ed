"""nslookup of BusyBox from 1.29 on: what it asks for, and its lines for replies."""

from __future__ import annotations

import dnslib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.standins.programs.busybox.dns_answers import describe_reply
from bridgehead.standins.programs.busybox.dns_queries import (
    Arguments,
    InvalidType,
    Query,
    Resolver,
    UsageError,
    encode_query,
    parse_arguments,
    parse_resolver,
    plan_queries,
    reverse_name,
)
from bridgehead.standins.programs.busybox.options import BadNumber

A, AAAA, PTR, SRV = 1, 28, 12, 33
SEARCH = "default.svc.cluster.local svc.cluster.local"


@pytest.mark.parametrize(
    ("argv", "arguments"),
    [
        (["web"], Arguments(host="web")),
        (["web", "10.96.0.10"], Arguments(host="web", server="10.96.0.10")),
        (["-type=srv", "web"], Arguments(host="web", types=("SRV",))),
        (["-q=Txt", "-ty=a", "-querytype=soa", "web"], Arguments(host="web", types=("SOA", "A", "TXT"))),
        (["-t=2", "-retry=3", "-port=5353", "x"], Arguments(host="x", timeout=2, tries=3, port=5353)),
        (["-ti=9", "-p=1", "-d", "-r=1", "x"], Arguments(host="x", timeout=9, tries=1, port=1, is_debug=True)),
    ],
)
def test_arguments(argv: list[str], arguments: Arguments) -> None:
    assert parse_arguments(argv) == arguments


@pytest.mark.parametrize("argv", [[], ["-debug"], ["a", "b", "c"], ["-x", "a"], ["-", "a"], ["-typo=a", "a"]])
def test_other_arguments_are_refused(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_arguments(argv)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("-type=no", 'invalid query type "no"'),
        ("-port=0", "number 0 is not in 1..65535 range"),
        ("-port=70000", "number 70000 is not in 1..65535 range"),
        ("-timeout=", "invalid number ''"),
        ("-retry=-1", "invalid number '-1'"),
        ("-port=" + "9" * 5000, f"invalid number '{'9' * 5000}'"),
    ],
)
def test_other_values_are_refused(word: str, message: str) -> None:
    with pytest.raises((InvalidType, BadNumber)) as caught:
        parse_arguments([word, "web"])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "hostname", "resolver"),
    [
        ("nameserver 10.96.0.10\nnameserver fd00::a\n", "p", Resolver(("10.96.0.10", "fd00::a"))),
        ("search a b\ndomain c\noptions ndots:5\n", "p", Resolver(search="a b")),
        ("domain c\nsearch a\n", "p.d", Resolver(search="a")),
        ("domain c\n", "p.d", Resolver(search="c")),
        ("search .\n", "p.d", Resolver()),
        ("\n#x y\nnameserver\n", "p.d.e", Resolver(search="d.e")),
        ("", "p", Resolver()),
        (f"search {'a' * 510}x\n", "p", Resolver(search="a" * 504)),
    ],
)
def test_resolver(text: str, hostname: str, resolver: Resolver) -> None:
    assert parse_resolver(text, hostname) == resolver


@pytest.mark.parametrize(
    ("host", "types", "search", "queries"),
    [
        ("web.default", (), SEARCH, [Query("web.default", A), Query("web.default", AAAA)]),
        ("web", ("SRV",), SEARCH, [Query(f"web.{each}", SRV) for each in SEARCH.split()]),
        ("web", ("A",), None, [Query("web", A)]),
        ("web", ("PTR",), SEARCH, [Query("web", PTR)]),
        ("10.96.0.1", (), SEARCH, [Query("1.0.96.10.in-addr.arpa", PTR)]),
        ("10.96.0.1", ("A",), SEARCH, [Query("10.96.0.1", A)]),
    ],
)
def test_queries(host: str, types: tuple[str, ...], search: str | None, queries: list[Query]) -> None:
    assert plan_queries(host, types, search) == queries


def test_all_search_domains_are_asked_for_both_families() -> None:
    names = [f"web.{each}" for each in SEARCH.split()]
    assert plan_queries("web", (), SEARCH) == [Query(name, kind) for kind in (A, AAAA) for name in names]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("1.2.3.4", "4.3.2.1.in-addr.arpa"),
        ("::ffff:1.2.3.4", "4.3.2.1.in-addr.arpa"),
        ("fd00::1", "1" + ".0" * 29 + ".d.f.ip6.arpa"),
        ("fd00::1%eth0", ""),
        ("1.2.3", ""),
    ],
)
def test_reverse_names(address: str, name: str) -> None:
    assert reverse_name(address) == name


@pytest.mark.parametrize("name", ["web.default", "web.default.", ".", ""])
def test_a_query_has_one_question(name: str) -> None:
    message = encode_query(Query(name, SRV), 0x1234)
    assert message is not None
    parsed = dnslib.DNSRecord.parse(message)
    assert (parsed.header.id, parsed.header.rd, len(parsed.questions)) == (0x1234, 1, 1)
    assert (str(parsed.q.qname), parsed.q.qtype, parsed.q.qclass) == (f"{name.rstrip('.')}.", SRV, 1)


@pytest.mark.parametrize("name", ["a..b", f"{'a' * 64}.b", ".".join(["a" * 63] * 4), ".a"])
def test_no_message_can_have_such_a_name(name: str) -> None:
    assert encode_query(Query(name, A), 1) is None


def reply(zone: str = "", *, aa: int = 1, rcode: int = 0) -> bytes:
    message = dnslib.DNSRecord.question("w.x").reply(aa=aa)
    message.header.rcode = rcode
    message.add_answer(*dnslib.RR.fromZone(zone))
    return bytes(message.pack())


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("", ""),
        ("w.x 5 A 10.0.0.1\nw.x 5 AAAA fd00::1", "Name:\tw.x\nAddress: 10.0.0.1\nName:\tw.x\nAddress: fd00::1\n"),
        ("w.x 5 AAAA ::ffff:102:304", "Name:\tw.x\nAddress: ::ffff:1.2.3.4\n"),
        ("w.x 5 CNAME v.x\nv.x 5 A 10.0.0.1", "w.x\tcanonical name = v.x\nName:\tv.x\nAddress: 10.0.0.1\n"),
        ("w.x 5 NS n.x", "w.x\tnameserver = n.x\n"),
        ("w.x 5 PTR .", "w.x\tname = .\n"),
        # BusyBox prints the first label for all of these records.
        ("w.x 5 CNAME v.x\nv.x 5 PTR p.x", "w.x\tcanonical name = v.x\nv.x\tcanonical name = p.x\n"),
        ("w.x 5 MX 10 m.x", "w.x\tmail exchanger = 10 m.x\n"),
        ('w.x 5 TXT "a b" "c"', 'w.x\ttext = "a b"\n'),
        ("w.x 5 SRV 1 2 3 t.x", "w.x\tservice = 1 2 3 t.x\n"),
        (
            "w.x 5 SOA n.x m.x 1 2 3 4 5",
            "w.x\n\torigin = n.x\n\tmail addr = m.x\n"
            "\tserial = 1\n\trefresh = 2\n\tretry = 3\n\texpire = 4\n\tminimum = 5\n",
        ),
        ("w.x 5 NAPTR 1 1 a b c .", ""),
    ],
)
def test_lines_of_records(zone: str, text: str) -> None:
    assert describe_reply("w.x", reply(zone)) == (text, True)
    assert describe_reply("w.x", reply(zone, aa=0)) == (f"Non-authoritative answer:\n{text}", True)
    assert describe_reply("w.x", reply(zone), is_debug=True) == (f"authoritative answer:\n{text}", True)


@pytest.mark.parametrize(
    ("rcode", "name"), [(1, "FORMERR"), (2, "SERVFAIL"), (3, "NXDOMAIN"), (5, "REFUSED"), (15, "15")]
)
def test_a_reply_without_success(rcode: int, name: str) -> None:
    assert describe_reply("w.x", reply(rcode=rcode)) == (f"** server can't find w.x: {name}\n", False)


def record(type: int, data: bytes, name: bytes = b"\xc0\x0c") -> bytes:
    question = b"\1w\1x\0\0\1\0\1"
    body = name + type.to_bytes(2, "big") + b"\0\1\0\0\0\5" + len(data).to_bytes(2, "big") + data
    return b"\0\1\x85\x80\0\1\0\1\0\0\0\0" + question + body


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (record(16, b"\0"), ""),
        (record(16, b"\x02a\xff"), 'w.x\ttext = "a\udcff"\n'),
        (record(16, b"\x09a\0b"), 'w.x\ttext = "a"\n'),
        (record(12, b"\x03a.\x01\x01\xff\0"), "w.x\tname = a\\.\\001.\\255\n"),
    ],
)
def test_lines_of_odd_data(message: bytes, text: str) -> None:
    assert describe_reply("w.x", message) == (text, True)


@pytest.mark.parametrize(
    "message",
    [
        b"\0\1\x85\x80",
        reply("w.x 5 A 10.0.0.1") + b"\0",
        reply("w.x 5 A 10.0.0.1")[:-1],
        record(1, b"abc"),
        record(28, b"abc"),
        record(33, b"abc"),
        record(6, b"\0\0"),
        record(6, b"\xc0\x0c" * 2 + b"a" * 19),
        record(16, b""),
        record(12, b"\xc0\xff"),
        record(12, b"\xc0"),
        record(12, b"\xc0\x02"),  # to bytes that are no label
        record(12, b"\x05ab"),
        record(12, b"\x80"),
        record(1, b"abcd", b"\xc0\x15"),  # to itself
        record(12, (b"\x3f" + b"a" * 63) * 4 + b"\0"),
    ],
)
def test_a_malformed_reply(message: bytes) -> None:
    assert describe_reply("w.x", message) == ("*** Can't find w.x: Parse error\n", False)


def test_lines_before_an_error_stay() -> None:
    assert describe_reply("w.x", record(15, b"a")).text == "MX record too short\n*** Can't find w.x: Parse error\n"


@given(st.binary(min_size=4, max_size=512), st.integers(0, 4))
def test_any_reply_has_lines(message: bytes, count: int) -> None:
    framed = message[:2] + b"\x85\x80\0\0\0" + bytes([count]) + b"\0\0\0\0" + message[2:]
    for each in (message, framed[:512]):
        assert describe_reply("w.x", each).text.count("\n") < 1000
