import struct

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.network.netlink_attributes import (
    MESSAGE_HEADER,
    attribute,
    be16,
    be32,
    each_attribute,
    each_message,
    nest,
    parse_attributes,
    parse_text,
    text,
    u32,
)

attribute_lists = st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=40)), max_size=8)


@given(attribute_lists)
def test_attributes_are_parsed_as_they_were_encoded(wanted):
    encoded = b"".join(attribute(kind, value) for kind, value in wanted)
    assert len(encoded) % 4 == 0
    assert list(each_attribute(encoded)) == wanted
    assert [(kind, bytes(value)) for kind, value in each_attribute(memoryview(encoded))] == wanted


@given(attribute_lists)
def test_a_nest_is_parsed_without_the_nested_flag(wanted):
    inner = b"".join(attribute(kind, value) for kind, value in wanted)
    assert list(each_attribute(nest(7, inner))) == [(7, inner)]


def test_values_are_converted_by_type():
    found = parse_attributes(text(1, "eth0") + u32(2, 5) + be16(3, 80) + be32(4, 5))
    assert parse_text(found[1]) == "eth0"
    assert struct.unpack("=I", found[2]) == (5,)
    assert (found[3], found[4]) == (b"\0\x50", b"\0\0\0\5")


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data):
    list(each_attribute(data))
    list(each_message(data))


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.binary(max_size=20)), max_size=5))
def test_messages_of_one_datagram_are_separated(wanted):
    datagram = b""
    for number, (kind, payload) in enumerate(wanted):
        length = MESSAGE_HEADER.size + len(payload)
        datagram += MESSAGE_HEADER.pack(length, kind, 0, number, 0) + payload + b"\0" * (-length % 4)
    assert [(kind, number, payload) for kind, _, number, payload in each_message(datagram)] == [
        (kind, number, payload) for number, (kind, payload) in enumerate(wanted)
    ]
