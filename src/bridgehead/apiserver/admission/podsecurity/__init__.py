"""PodSecurity: the Pod Security Standards, enforced by labels of namespaces.

plugin       admission of pods, of workloads' templates and of namespaces' labels
levels       levels and versions, and the policy that a namespace's labels ask for
evaluation   the checks of a level and version, and their result for a pod
baseline, restricted
             the checks of each level
violations   the finding of a check, and helpers of the checks

Only `plugin` and `levels` are imported at the start. Source: Kubernetes staging/src/k8s.io/pod-security-admission.
"""
