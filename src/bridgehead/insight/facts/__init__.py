"""Facts: the state of a cluster's API and of its kernels, read once, for questions that are answered without I/O.

cluster_state       the objects of the API, with indexes
cluster_reading     reads them; what may not be read is listed as unseen
system_object_names names of the objects in kube-system
old_slices          EndpointSlices of v1beta1 in the form of v1
served_groups       whether the API serves an optional group
network_state       the state of one network namespace: rules, connections, listeners, routes
network_reading     reads it, by one of these:
    network_local_reading   by a process there
    network_remote_reading  by the programs of a proxy's pod
kernel_texts        parsers of the texts of /proc and of programs
sysctl_names        the sysctls that are read
"""
