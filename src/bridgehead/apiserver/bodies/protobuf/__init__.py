"""Kubernetes' protobuf encoding of bodies, which Go clients send and ask for.

The wire format has field numbers where JSON has names. The names and types of fields are those of the schema.

    fields.py     field numbers, read from fields.txt
    decoding.py   bytes -> the object that JSON would have
    encoding.py   an object -> bytes
    framing.py    what is around messages: envelopes, lists, events of a watch
    objects.py    objects of the schema's kinds as whole bodies

Source: apimachinery/pkg/runtime/serializer/protobuf, the generated.proto files of k8s.io/api.
"""

from __future__ import annotations

from .decoding import BadPacket, decode_envelope_untrusted, decode_message_untrusted
from .encoding import Encoder
from .fields import MAGIC, plain_scalars

__all__ = [
    "MAGIC",
    "BadPacket",
    "Encoder",
    "decode_envelope_untrusted",
    "decode_message_untrusted",
    "plain_scalars",
]
