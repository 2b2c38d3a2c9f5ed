"""The objects that are stored, without HTTP.

`registry` has the operations on one of them: `admission`, `metadata`, `deletion`, then the commit. `lists` and
`watching` read many; `expiry` forgets old Events.
"""
