"""The table of directives: what may stand in a server block.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from .draft import ServerBlock, Spec, Table, Where, ignore
from .forwarding import read_cache, read_forward
from .kubernetes import read_kubernetes
from .local_names import read_hosts, read_rewrite, read_template
from .operation import (
    read_any,
    read_autopath,
    read_bind,
    read_bufsize,
    read_cancel,
    read_errors,
    read_health,
    read_loadbalance,
    read_log,
    read_minimal,
    read_prometheus,
    read_ready,
    read_reload,
    read_transfer,
)

DIRECTIVES: Table[ServerBlock] = {
    "kubernetes": Spec(
        "kubernetes [ZONE...]", "the cluster's domain, and reverse zones", read_kubernetes, has_options=True
    ),
    "forward": Spec("forward FROM TO...", "the upstreams of a domain", read_forward, has_options=True),
    "cache": Spec("cache [TTL] [ZONE...]", "which answers are kept, and their TTLs", read_cache, has_options=True),
    "hosts": Spec("hosts [FILE [ZONE...]]", "names with fixed addresses", read_hosts, has_options=True),
    "rewrite": Spec(
        "rewrite [continue|stop] name [KIND] FROM TO [answer auto|name FROM TO|value FROM TO...]",
        "answers a name as if another had been asked for",
        read_rewrite,
        Where.CLUSTER_OR_ROOT,
        has_options=True,
    ),
    "template": Spec(
        "template IN|ANY TYPE [ZONE...]", "answers that are built from the question", read_template, has_options=True
    ),
    "autopath": Spec(
        "autopath @kubernetes", "resolves the search list of a pod in one query", read_autopath, Where.CLUSTER
    ),
    "transfer": Spec(
        "transfer [ZONE]", "clients that may have the whole zone", read_transfer, Where.CLUSTER, has_options=True
    ),
    "bind": Spec("bind ADDRESS...", "the addresses that are listened on", read_bind),
    "bufsize": Spec("bufsize [BYTES]", "the largest reply by UDP", read_bufsize),
    "health": Spec("health [ADDRESS]", "the page /health", read_health, has_options=True),
    "ready": Spec("ready [ADDRESS]", "the page /ready", read_ready),
    "prometheus": Spec("prometheus [ADDRESS]", "the page /metrics", read_prometheus),
    "log": Spec("log", "a line for each query", read_log, has_options=True),
    "minimal": Spec("minimal", "positive replies have answer records only", read_minimal),
    "any": Spec("any", "queries for ANY get a minimal answer (RFC 8482)", read_any),
    "cancel": Spec("cancel [TIMEOUT]", "the time for one query to upstreams", read_cancel),
    "errors": Spec("errors", "errors are logged anyway", read_errors),
    "loop": Spec("loop", "upstreams that are this server are never asked", ignore),
    "loadbalance": Spec("loadbalance [round_robin]", "addresses rotate anyway", read_loadbalance),
    "reload": Spec("reload [INTERVAL [JITTER]]", "changes of the file are noticed anyway", read_reload),
}
