"""For all tests: where administrators' commands are, and no verdict of Hypothesis on how fast a machine is."""

import os

from hypothesis import HealthCheck, settings

# Ordinary users often lack the directories where `nft` and `ip` are.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
