"""Records of runs: journals, leases, queries, feed, blobs."""
