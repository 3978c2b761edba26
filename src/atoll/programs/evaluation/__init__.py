"""Evaluation of programs: the evaluator's job, stages and scores, LLM reviews."""
