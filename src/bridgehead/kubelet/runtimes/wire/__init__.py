"""The protocol between a kubelet and the runtime on a Unix socket: messages and the kubelet's client."""
