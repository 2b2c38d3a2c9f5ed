"""Quotas and limits of namespaces: what objects use, and whether it is allowed.

usage       what an object uses of the resources that quotas limit
scopes      the pods and claims that a quota is about
checking    whether an object fits into a namespace's quotas
limits      default requests and limits of pods, and the bounds of a LimitRange

No module does I/O or reads a clock. The plug-ins LimitRanger and ResourceQuota apply it to writes (`admission/`);
`registry/quota_usage.py` keeps the status of quotas.
"""
