"""The identity of the webhook's server, made in a process of its own.

The library that makes certificates takes 10 MiB, and is needed once.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Sequence
from typing import NamedTuple

from bridgehead.tls_certificates import issue_certificate

from .ca_bundle import CA_NAME


class Identity(NamedTuple):
    """Certificates and key in PEM. `ca` is what API servers need to trust `certificate`."""

    ca: bytes
    certificate: bytes
    key: bytes


def make_identity(serves: Sequence[str]) -> Identity:
    """Return a new certificate for these DNS names and IP addresses, and its CA. Raises ChildProcessError."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_child(writing, serves)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        text = result.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise ChildProcessError("the certificate of the webhook could not be made")
    ca, certificate, key = pickle.loads(text)
    return Identity(ca, certificate, key)


def _run_child(writing: int, serves: Sequence[str]) -> None:
    """Write the PEM texts and exit, without the cleanups of the parent."""
    status = 1
    try:
        with os.fdopen(writing, "wb") as result:
            pickle.dump(issue_certificate(serves, name="bridgehead-balancer", ca_name=CA_NAME), result)
        status = 0
    except BaseException:  # noqa: BLE001 - forked: must not return into the parent's stack
        traceback.print_exc()
    finally:
        os._exit(status)
