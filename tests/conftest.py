"""For all tests: where administrators' commands are, and no verdict of Hypothesis on how fast a machine is.

Its examples are the same in every run of the same test, so that no change fails by the dice of that run;
`pytest --hypothesis-profile=explore` throws them anew.
"""

import os

from hypothesis import HealthCheck, settings

# Ordinary users often lack the directories where `nft` and `ip` are.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", settings.get_profile("explore"), derandomize=True)
settings.load_profile("patient")
