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
sources      imported files, and variables
"""

from .reader import Reading, read_corefile
from .sources import Sources

__all__ = ["Reading", "Sources", "read_corefile"]
