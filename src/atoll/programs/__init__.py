"""Program evolution: a whole program or text evolves, judged by an evaluator of its file, as in OpenEvolve."""
