"""What git is told against a repository's own configuration: a repository may be a stranger's."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from atoll.mind.workspace.names import WorkspaceError

SAFE_SETTINGS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "core.editor": "true",
    "sequence.editor": "true",
    "core.pager": "cat",
    "core.alternateRefsCommand": "true",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.sparseCheckout": "false",
    "core.logAllRefUpdates": "false",
    "core.fsync": "none",  # a kill loses nothing by that; a merge has git's usual care
    "credential.helper": "",
    "protocol.allow": "never",
    "commit.gpgSign": "false",
    "merge.verifySignatures": "false",
    "merge.autoStash": "false",
    "log.showSignature": "false",
    "gpg.format": "openpgp",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "gpg.ssh.allowedSignersFile": os.devnull,
    "gpg.ssh.revocationFile": os.devnull,
    "mailmap.file": os.devnull,
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "diff.external": "",
    "diff.ignoreSubmodules": "dirty",
    "diff.orderFile": os.devnull,
    "gc.auto": "0",
    "maintenance.auto": "false",
}
# What honest repositories name too, by a name of their own in the middle: it is overruled by doing nothing. A filter
# leaves a file as it is; a merge by a driver is a conflict.
_NEUTRAL_VALUES = {
    ("filter", "clean"): "",
    ("filter", "smudge"): "",
    ("filter", "process"): "",
    ("filter", "required"): "false",
    ("diff", "command"): "",
    ("diff", "textconv"): "",
    ("merge", "driver"): "false",
    ("branch", "mergeoptions"): "",
    ("credential", "helper"): "",
    ("gpg", "program"): "false",
    ("remote", "uploadpack"): "false",
    ("remote", "receivepack"): "false",
    ("remote", "vcs"): "false",
    ("remote", "proxy"): "",
    ("submodule", "ignore"): "dirty",
}
# Whatever else sounds like a program, of this version of git or one to come, is more than can be overruled by name.
_PROGRAM_KEY = re.compile(
    r"(?:.*(?:program|command|cmd|driver|textconv|helper|editor|pager|hook|askpass|diff-?filter|proxy|exec)"
    r"|clean|smudge|process|vcs|uploadpack|receivepack)"
)
_INTERACTIVE_SECTIONS = frozenset(("alias", "difftool", "mergetool", "guitool", "pager", "color", "http", "https"))


def make_safe_settings(names: Sequence[str]) -> Mapping[str, str]:
    """Returns the settings under which nothing starts that a repository's configuration names.

    Args:
        names: All that its configuration sets.

    Raises:
        Refused: It includes files, which can differ from one worktree to the next, or names a program in a way that
            nothing here overrules.
    """
    settings = {**SAFE_SETTINGS, **dict(_override_named(names))}
    known_names = {name.lower() for name in settings}
    for name in names:
        section, _, key = name.lower().partition(".")
        if section in ("include", "includeif"):
            raise WorkspaceError(
                f"The configuration of this repository includes files ({name!a:.80}), so what git would start is "
                f"not known: remove the section {section!r} from .git/config, or give a plain clone."
            )
        is_program = _PROGRAM_KEY.fullmatch(key.rpartition(".")[2]) is not None and section not in _INTERACTIVE_SECTIONS
        if is_program and name.lower() not in known_names:
            raise WorkspaceError(
                f"The configuration of this repository names a program ({name!a:.80}), which git could start outside "
                "the jail: remove that line from .git/config, or give a plain clone."
            )
    return settings


def _override_named(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        section, _, key = name.partition(".")
        value = _NEUTRAL_VALUES.get((section.lower(), key.rpartition(".")[2].lower()))
        if value is not None and "." in key:
            yield name, value
            if section.lower() == "filter":
                yield f"{section}.{key.rpartition('.')[0]}.required", "false"
