"""Evolution of texts on data sets, as in GEPA: minibatches, reflection, merging, Pareto fronts."""
