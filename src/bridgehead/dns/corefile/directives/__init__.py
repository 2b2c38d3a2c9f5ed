"""The table of directives: what may stand in a server block. Each module has one directive, as CoreDNS' plug-ins do.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import ServerBlock, Table

from .any import ANY
from .autopath import AUTOPATH
from .bind import BIND
from .bufsize import BUFSIZE
from .cache import CACHE
from .cancel import CANCEL
from .errors import ERRORS
from .forward import FORWARD
from .health import HEALTH
from .hosts import HOSTS
from .kubernetes import KUBERNETES
from .loadbalance import LOADBALANCE
from .log import LOG
from .loop import LOOP
from .minimal import MINIMAL
from .prometheus import PROMETHEUS
from .ready import READY
from .reload import RELOAD
from .rewrite import REWRITE
from .template import TEMPLATE
from .transfer import TRANSFER

DIRECTIVES: Table[ServerBlock] = {
    "kubernetes": KUBERNETES,
    "forward": FORWARD,
    "cache": CACHE,
    "hosts": HOSTS,
    "rewrite": REWRITE,
    "template": TEMPLATE,
    "autopath": AUTOPATH,
    "transfer": TRANSFER,
    "bind": BIND,
    "bufsize": BUFSIZE,
    "health": HEALTH,
    "ready": READY,
    "prometheus": PROMETHEUS,
    "log": LOG,
    "minimal": MINIMAL,
    "any": ANY,
    "cancel": CANCEL,
    "errors": ERRORS,
    "loop": LOOP,
    "loadbalance": LOADBALANCE,
    "reload": RELOAD,
}
