"""The content store: blobs by digest, unpacked layers, and the names of images."""
