"""Kubernetes objects as typed values: no I/O, and nothing of ours is imported from here.

`meta` what every object has · `core`, `apps`, `discovery`, `networking`, `coordination` the kinds · `kinds` where the
API serves each · `names` and `selectors` their rules · `addresses`, `quantities` and `times` how their fields are
written · `taints` keys that say what ails a node · `progress` how far proxies are, as their Leases say.
"""
