"""The Secret with the key of the heartbeats, which the controller creates and all speakers read."""

from __future__ import annotations

from typing import Final

OWN_NAMESPACE: Final = "bridgehead-system"  # of the Secret, and of the controller's Lease
LEASE_NAME: Final = "bridgehead-balancer"
SECRET_NAME: Final = "bridgehead-speakers"
KEY: Final = "key"  # in the Secret's data
# Annotation of the Secret while another balancer runs: its pod. The speakers announce nothing then.
STEPPED_BACK_ANNOTATION: Final = "bridgehead.io/stepped-back-for"
# Annotation of the Secret: the kinds of configuration objects of which there are any.
KINDS_ANNOTATION: Final = "bridgehead.io/kinds-in-use"
