"""Linux features that isolate candidates."""
