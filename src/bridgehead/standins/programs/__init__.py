"""The programs of stand-ins. The module of one is imported when it runs: the kubelet imports nothing from here."""
