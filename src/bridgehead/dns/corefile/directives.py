"""The table of directives: what may stand in a server block.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from .draft import ServerBlock, Spec, Table, Where, has_no_effect, ignore
from .forwarding import read_cache, read_forward
from .kubernetes import read_kubernetes
from .local_names import read_hosts, read_rewrite, read_template
from .operation import (
    read_autopath,
    read_bind,
    read_bufsize,
    read_health,
    read_log,
    read_prometheus,
    read_ready,
    read_transfer,
)

DIRECTIVES: Table[ServerBlock] = {
    "kubernetes": Spec("kubernetes [ZONE...]", "the cluster's domain, and reverse zones", read_kubernetes),
    "forward": Spec("forward FROM TO...", "the upstreams of a domain", read_forward),
    "cache": Spec("cache [TTL] [ZONE...]", "how long answers of upstreams are kept", read_cache),
    "hosts": Spec("hosts [FILE [ZONE...]]", "names with fixed addresses", read_hosts),
    "rewrite": Spec(
        "rewrite [continue|stop] name [KIND] FROM TO [answer auto|name FROM TO|value FROM TO...]",
        "answers a name as if another had been asked for",
        read_rewrite,
        Where.CLUSTER_OR_ROOT,
    ),
    "template": Spec("template IN|ANY TYPE [ZONE...]", "answers that are built from the question", read_template),
    "autopath": Spec(
        "autopath @kubernetes", "resolves the search list of a pod in one query", read_autopath, Where.CLUSTER
    ),
    "transfer": Spec("transfer", "clients that may have the whole zone", read_transfer, Where.CLUSTER),
    "bind": Spec("bind ADDRESS...", "the addresses that are listened on", read_bind),
    "bufsize": Spec("bufsize [BYTES]", "the largest reply by UDP", read_bufsize),
    "health": Spec("health [ADDRESS]", "the page /health", read_health),
    "ready": Spec("ready [ADDRESS]", "the page /ready", read_ready),
    "prometheus": Spec("prometheus [ADDRESS]", "the page /metrics", read_prometheus),
    "log": Spec("log", "a line for each query", read_log),
    "errors": Spec("errors", "errors are logged anyway", ignore),
    "loop": Spec("loop", "upstreams that lead back to this server are never asked", ignore),
    "loadbalance": Spec("loadbalance", "addresses rotate anyway", ignore),
    "any": Spec("any", "queries for ANY get a minimal answer anyway (RFC 8482)", ignore),
    "cancel": Spec("cancel [DURATION]", "queries to upstreams have a time limit anyway", ignore),
    "debug": Spec("debug", "for developers of CoreDNS", ignore),
    "reload": Spec("reload [DURATION]", "changes of the file are noticed anyway", has_no_effect),
    "minimal": Spec("minimal", "shortens replies of CoreDNS", has_no_effect),
    "multisocket": Spec("multisocket [NUMBER]", "tunes CoreDNS; see --processes", has_no_effect),
    "pprof": Spec("pprof [ADDRESS]", "profiles of CoreDNS", has_no_effect),
    "timeouts": Spec("timeouts", "tunes CoreDNS", has_no_effect),
}
