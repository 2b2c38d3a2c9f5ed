"""The speaker of one node: decides with all others which node announces an address, and announces its own."""
