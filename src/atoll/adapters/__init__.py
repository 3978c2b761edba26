"""Adapters of `atoll.evolve` to other libraries: `dspy` and `sklearn`. Each needs the extra of its name."""
