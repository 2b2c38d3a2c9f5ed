"""Stand-in for pytest-kind: its cluster is the one of KUBECONFIG, a lab, which nobody creates or deletes here."""
