"""The container runtime of a node: sandboxes, containers and images, as a process of its own.

`runtime` is the interface that the kubelet uses (after the CRI), `wire.client` its implementation over a socket,
`service` the process at the other end. README.md shows which process forks which.
"""
