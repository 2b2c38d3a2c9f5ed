"""Field management: who owns which fields of an object, and server-side apply.

    path_steps.py             path steps as FieldsV1 writes them (`f:spec`, `k:{"name":"web"}`, `v:"x"`)
    fieldset.py               sets of paths: union, difference, intersection
    roots.py                  the type of whole objects, of which some fields have no owner
    comparing.py              two objects -> the paths that changed and the paths that are gone
    applied_configuration.py  an applied configuration: its errors and its paths
    merging.py                a live object and an applied configuration -> the merged object
    pruning.py                fields that the applier no longer sends -> the object without them
    managers.py               managedFields after a create, an update or a patch
    applying.py               server-side apply: merge, prune, conflicts, managedFields
    last_applied.py           the annotation of client-side apply
    errors.py                 conflicts and unusable configurations

Types are `shapes`. Objects are decoded JSON. No function changes its arguments, and results share parts with them.
Source: KEP-555, sigs.k8s.io/structured-merge-diff, apimachinery/pkg/util/managedfields.
"""
