"""Makes many TCP connections, as fast as it can, and counts who answered: `connect_many.py ADDRESS PORT COUNT`.

A program of its own, so that it need not share an interpreter with the servers. Prints the counts as JSON, by the first
word of each answer; "" for none.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter

_AT_ONCE = 64  # so that server and client both always have something to do


def connect_many(address: str, port: int, count: int) -> Counter[str]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found: Counter[str] = Counter()
    while count:
        several = [socket.socket(family, socket.SOCK_STREAM) for _ in range(min(_AT_ONCE, count))]
        count -= len(several)
        for sock in several:
            sock.settimeout(60)
            sock.connect((address, port))
        for sock in several:
            with sock:
                found[sock.recv(200).decode().partition(" ")[0]] += 1
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(connect_many(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
