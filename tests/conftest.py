"""For all tests: ordinary users often lack the directories of administrators' commands, where `nft` and `ip` are."""

import os

os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
