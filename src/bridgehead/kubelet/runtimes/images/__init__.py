"""Images: references, the local image store, and how a name becomes an image that the node can run."""
