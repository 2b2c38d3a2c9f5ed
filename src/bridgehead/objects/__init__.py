"""Kubernetes objects as typed values: no I/O, and nothing of ours is imported from here.

`meta` what every object has · `core`, `apps`, `discovery`, `coordination` the kinds · `kinds` where the API
serves each · `names` and `selectors` their rules · `addresses`, `quantities` and `times` how their fields
are written.
"""
