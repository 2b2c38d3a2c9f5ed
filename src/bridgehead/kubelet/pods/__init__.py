"""The life of a pod on this node.

`pod_worker` runs one pod from its first sight to its removal; `worker_state` has its states and the moves between them.
The worker asks `pod_admission` whether the node takes the pod (`unsupported_fields`, `node_fit`, `preemption`),
`starts_and_restarts` what to do next (kubelet's `computePodActions`) and `pod_status` what to report; `pod_reporter`
writes Events, and `status_manager` sends the `status_patch`. `pod_resize` changes resources of a running pod, as
`resize_plan` decides.
`pod_sandbox` and `pod_volumes` make what a pod has beside its containers, `pod_termination` ends them.

`barrier` holds SIGTERM back until no proxy sends a terminating pod new connections; `withdrawal` decides whether its
EndpointSlices mark it as terminating. `orphans` removes what is left of pods that were deleted while no kubelet ran.

`static_pods` starts the pods of manifest files (`static_manifest`, `mirror_pods`). `eviction` ends pods that use more
local storage than `local_storage` allows.
"""
