"""The container image of Bridgehead's parts: python -m deploy.image (docs/images.md, "The image of Bridgehead itself").

`debian` downloads Debian packages, `python_packages` selects what Bridgehead needs of a virtual environment, `trees`
holds the files of a layer and writes them as an archive that is the same each time, `layers` makes the three layers of
the image of these, `oci` writes the image.
"""
