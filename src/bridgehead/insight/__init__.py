"""Diagnosis of a cluster from the objects of all parts and the state of its kernels. Read-only.

facts       the state of the API and of kernels
network_namespaces  namespaces of nodes and pods, which can be entered
forked_namespace    one of this machine, entered by forked processes
remote_namespaces   those of any cluster, entered by `exec` into pods
findings    causes for which something does not work
programmed  whether every node's kernel has a Service's present state; `waiting` waits for it
proxies     the mode and the problems of each node's proxy
image_users        workloads that use an image
troubled_services  Services whose Events or status show that they do not work
tour        the lessons of `bridgehead tour`, as data
speakers    the status pages of the load-balancer speakers
expectations  the Frontends that a node's kernel should have
doctor      causes for which Services do not work: the catalogue, the checks, the diagnosis
rulesets    a node's rules, each with the Service that it is there for; their comparison with the expected ones
recording   recordings of a cluster's Services in a file, and the plan of their replay
flows       live connections by Service
dashboard   the page of a cluster in a browser
mode_differences  observable differences between two proxy modes
"""
