"""A client of etcd's API (3.4 and newer) by gRPC.

    etcd_client     the client: operations on keys, transactions, leases, watches, the status of members
    requests        comparisons and operations of a transaction
    records         values that the client returns
    watching        one watch
    members         choice of the member for the next call
    connection      a gRPC channel to one member
    supervision     signs of life of a member, and the calls that its leader has not answered
    authentication  the token of a user
    tls             certificate files
    handshakes      reasons for which TLS connections fail that gRPC does not report
    quiet_grpc      the import of gRPC
    settings        endpoints and credentials
    failures        gRPC's errors as errors of the client
    errors          the errors
    versions        versions of etcd
    answers         etcd's messages as records
    messages_pb2    etcd's messages, generated from messages.proto by scripts/build-etcd-messages

`open_client` imports what needs grpcio and protobuf, which are in the extra `etcd`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import MissingPackage
from .settings import EtcdSettings

if TYPE_CHECKING:
    from .etcd_client import EtcdClient

__all__ = ["EtcdSettings", "open_client"]


def open_client(settings: EtcdSettings) -> EtcdClient:
    """Return a client; it connects at its first call. Raises `EtcdError` for unusable settings or a missing package."""
    try:
        from .etcd_client import EtcdClient
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"a store on etcd needs the package {error.name}; install it: pip install 'bridgehead[etcd]'"
        ) from None
    return EtcdClient(settings)
