"""The kubelet: runs the pods that are bound to this node, and reports on them.

Imports go from the top of this list to the bottom (a contract in pyproject.toml):

    process       the kubelet as a process: opens what it needs, ends at SIGTERM
    server/       the HTTPS server on port 10250: logs, exec, attach, port-forward
    kubelet       wiring: informers, the runtime, one worker for each pod
    pods/         a pod's life: worker, admission, next actions, status, termination barrier
    containers/   a container's life: start, probes, restart, stop; its logs
    volumes/      volumes on disk; ConfigMaps, Secrets and tokens of pods
    node/         the Node object and its Lease; settings, addresses of pods
    runtimes/     the container runtime, a process of its own, and its client
    directory_use, errors, nofollow, uninterrupted    used by all of them

README.md follows a pod through these packages.
"""
