"""Corefiles: CoreDNS' configuration files, read into `config.DnsConfig`.

reader       server blocks -> settings; `read_corefile`
directives   the table: name -> parser, where it may stand, what it does
kubernetes   the parser of `kubernetes`
forwarding   the parsers of `forward` and `cache`
local_names  the parsers of `hosts`, `rewrite` and `template`
operation    the parsers of `bind`, `health`, `log`, ...
draft        the settings while the file is read; helpers for parsers
node_cache   the Corefile of NodeLocal DNSCache
text         text -> server blocks: quotes, variables, snippets, imports
sources      imported files, variables; whether a file has changed
"""

from .reader import Reading, read_corefile
from .sources import Inputs, Sources, only_when_changed

__all__ = ["Inputs", "Reading", "Sources", "only_when_changed", "read_corefile"]
