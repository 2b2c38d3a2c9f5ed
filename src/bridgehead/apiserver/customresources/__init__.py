"""CustomResourceDefinitions, and the resources that they define.

schema/         structural schemas: validation, pruning, defaulting
"""
