"""The network namespaces of a cluster: those of nodes and pods, and the network outside of the nodes.

In a lab, a process of this machine can enter each of them (`cli/lab_network_namespaces.py`). In another cluster, a
node's is entered by `exec` into the pod of its service proxy, a pod's by `exec` into the pod itself
(`remote_namespaces.py`): there, only the programs of the image can run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from bridgehead.objects.meta import ObjectKey

Argument = TypeVar("Argument")
Result = TypeVar("Result")

SECONDS = 10.0  # the default bound of one operation
MOST_BYTES = 256 << 20  # of one program's output


class NotEntered(Exception):
    """A namespace that cannot be entered, or an operation that is not possible there.

    The text is one line with the reason, without the namespace's name.
    """


class OnlyPrograms(NotEntered):
    """A namespace in which only programs can run."""


class Completed(NamedTuple):
    """A program that has ended. `code`: its exit code, with a shell's meaning (127: no such program)."""

    code: int
    stdout: bytes
    stderr: bytes


class NetworkNamespace(Protocol):
    """The network namespace of a node or of a pod, or the one outside of the nodes."""

    @property
    def name(self) -> str:
        """`node node1`, `pod default/web-1` or `outside`."""

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float = SECONDS) -> Completed:
        """Run a program. Raises NotEntered, also when the program does not end in time or prints too much."""

    async def call(
        self, function: Callable[[Argument], Result], argument: Argument, *, seconds: float = SECONDS
    ) -> Result:
        """Call a module's function in a process there, with the rights of root. The result is pickled.

        Raises OnlyPrograms; NotEntered after an error of the function, and after `seconds`.
        """


class NetworkNamespaces(Protocol):
    """The namespaces of one cluster. Every method raises NotEntered."""

    async def node(self, name: str) -> NetworkNamespace: ...

    async def pod(self, key: ObjectKey) -> NetworkNamespace: ...

    async def outside(self) -> NetworkNamespace:
        """Return the network to which the nodes are connected, as a machine that is no node sees it."""
