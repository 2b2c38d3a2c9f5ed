"""gRPC without its log.

It writes each failed handshake to standard error; the errors of this client have the reason.
"""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read by the import

import grpc
import grpc.aio

__all__ = ["grpc"]
