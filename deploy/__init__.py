"""Ways of Bridgehead's parts into real clusters. `image` builds the container image."""
