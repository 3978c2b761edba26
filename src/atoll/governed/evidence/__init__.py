"""Evidence: decision logs, feedback, replay, reflectors and off-policy estimates."""
