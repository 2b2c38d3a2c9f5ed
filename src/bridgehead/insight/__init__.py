"""What the state of a cluster means, for people who ask: reads objects of all parts, changes nothing."""
