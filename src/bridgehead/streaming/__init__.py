"""Kubernetes' streaming protocols below exec, attach and port-forward, as both ends speak them: `spdy`. Pure."""
