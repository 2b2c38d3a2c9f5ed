"""Kubernetes objects as typed values. This package imports no other part of Bridgehead.

- `meta`: what every object has. `kinds`: where the API serves each kind.
- `core/`, `apps`, `endpoint_slices`, `networking`, `coordination`, ...: the kinds, by API group.
- `names`, `selectors`, `node_labels`, `taints`, `node_fit`: rules of names, labels and taints.
- `addresses`, `quantities`, `times`: how fields are written.
- `progress`: up to which versions each node's proxy has programmed its kernel, as Leases.

Pure: no I/O, no clock, no randomness.
"""
