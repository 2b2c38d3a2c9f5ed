"""A name server with a few names, outside the cluster of a lab: `name_server.py ADDRESS
PORT NAME=IPV4...`. Prints "ready" when it serves, over UDP. Every other name gets NXDOMAIN."""

from __future__ import annotations

import socket
import sys

import dnslib


def reply_to(data: bytes, names: dict[str, str]) -> bytes:
    query = dnslib.DNSRecord.parse(data)
    reply = query.reply(ra=1)
    address = names.get(str(query.q.qname).rstrip(".").lower())
    if address is None:
        reply.header.rcode = dnslib.RCODE.NXDOMAIN
    elif query.q.qtype == dnslib.QTYPE.A:
        reply.add_answer(dnslib.RR(query.q.qname, dnslib.QTYPE.A, rdata=dnslib.A(address), ttl=60))
    return bytes(reply.pack())


def main(host: str, port: str, *names: str) -> None:
    known = dict(name.split("=") for name in names)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((host, int(port)))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            data, client = udp.recvfrom(4096)
            udp.sendto(reply_to(data, known), client)


if __name__ == "__main__":
    main(*sys.argv[1:])
