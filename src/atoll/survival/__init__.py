"""A life: an agent that puts survival first and learns fear and curiosity."""
