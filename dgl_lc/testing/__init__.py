"""What the tests and ``dgl-lc selftest`` share."""
