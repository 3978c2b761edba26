"""Who thinks: without a model, with one, or by a fixed policy."""
