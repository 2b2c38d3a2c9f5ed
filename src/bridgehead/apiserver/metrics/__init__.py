"""The server's metrics, under Kubernetes' names (source: Kubernetes metrics reference).

    request_metrics.py  requests: how many, how long, open, terminated
    access.py           authentication, authorization, certificates of clients
    storage_metrics.py  stored objects, watch events, commits
    waits.py            the time that a request spent on waiting for others
    page.py             the page /metrics

Counts are plain numbers: those of the client library have locks, which cost more than the rest of a count.
"""
