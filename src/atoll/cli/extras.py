"""How an extra is installed: from an index, and in a checkout, whose environment is its own."""

import re

_COMMAND = re.compile(r"pip install 'atoll\[(\w+)\]'(?! \(in a checkout)")


def get_install_command(extra: str) -> str:
    """Returns how to install an extra."""
    return add_checkout_command(f"pip install 'atoll[{extra}]'")


def add_checkout_command(sentence: str) -> str:
    """Returns a sentence in which every command that installs an extra is followed by the one for a checkout."""
    return _COMMAND.sub(r"\g<0> (in a checkout: scripts/setup \1)", sentence)
