"""Images from registries: a registry client, the content store of a lab, and the process that pulls for its nodes."""
