"""What an engine says that can do nothing with its parents."""


class NotApplicable(ValueError):
    """These parents are nothing for this engine: another one may take the step."""
