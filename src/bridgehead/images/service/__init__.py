"""The puller: the process that pulls images for the nodes of a lab, and the kubelet's client of it."""
