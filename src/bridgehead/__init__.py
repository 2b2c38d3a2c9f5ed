"""Bridgehead: Kubernetes Services as software of their own. `docs/architecture.md` explains the layout."""

__version__ = "0.1.0"
