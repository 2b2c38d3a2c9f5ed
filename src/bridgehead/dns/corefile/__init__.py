"""Corefiles: CoreDNS' configuration files, read into `config.DnsConfig`.

reader            server blocks -> settings, also those of NodeLocal DNSCache; `read_corefile`
directives/       a module for each directive: its parser, where it may stand, what it does; and the table of all
draft             the settings while the file is read; helpers for parsers
parser            text -> server blocks: quotes, variables, snippets, imports
referenced_files  imported files, variables; whether a file has changed
"""

from .reader import Reading, read_corefile
from .referenced_files import Inputs, Sources, only_when_changed

__all__ = ["Inputs", "Reading", "Sources", "only_when_changed", "read_corefile"]
