"""Records of store."""
