"""The runtime's process: it serves kubelets, makes sandboxes, and owns the container processes and their streams."""
