"""Commands of `audit` and `access`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

audit_app = options.make_group("Verify the audit log of all changes.")
KeyOption = Annotated[Path | None, typer.Option("--key-file", metavar="FILE", help="Key that signs anchors.")]


@audit_app.command("verify")
def verify(
    anchors: Annotated[Path | None, typer.Option("--anchors", metavar="FILE", help="Anchors to compare with.")] = None,
    key_file: KeyOption = None,
    exported: Annotated[
        Path | None, typer.Option("--exported", metavar="FILE", help="Verify an exported log instead of the store.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Verify the hash chain of the audit log.

    Exits with status 1 and names the change if one was edited, removed or moved. Anchors also detect changes removed
    from the end and a log that was rewritten.

    \b
    Examples:
      atoll audit verify
      atoll audit verify --anchors anchors.jsonl --key-file secret
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.store.versions import audit

    known_anchors = [audit.Anchor.parse(line) for line in _read_lines(anchors)] if anchors else []
    secret = _read_secret(key_file)
    for known_anchor in known_anchors if secret is not None else ():
        known_anchor.check_signature(secret or b"")
    result = (
        parameter_stores.verify(store, known_anchors)
        if exported is None
        else audit.verify(audit.parse_lines(_read_lines(exported)), known_anchors)
    )
    data: dict[str, Any] = {"changes": result.seq, "hash": result.hash, "anchors": result.num_anchors}
    if as_json:
        console.print_json(data)
    else:
        anchor_note = f" and {result.num_anchors} anchors" if known_anchors else ""
        console.print_result(f"Verified {result.seq} changes{anchor_note}. Last hash: {result.hash}.")


@audit_app.command("anchor")
def anchor(
    key_file: KeyOption = None,
    append: Annotated[
        Path | None, typer.Option("--append", metavar="FILE", help="Append the anchor to this file.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Print a signed hash of the last change.

    Keep it outside the store, where the users of the store cannot change it.

    \b
    Examples:
      atoll audit anchor --key-file secret --append anchors.jsonl
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        param_store.verify()
        line = param_store.anchor(_read_secret(key_file)).to_line()
    if append is None:
        print(line)
        return
    with append.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n") if path.stat().st_size else []
    except (OSError, UnicodeDecodeError) as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error


def _read_secret(path: Path | None) -> bytes | None:
    try:
        secret = None if path is None else path.read_bytes().strip()
    except OSError as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error
    if secret == b"":
        raise errors.SetupError(f"{path} is empty. Write a secret key into it.")
    return secret


access_app = options.make_group("Manage principals, their roles and the policy of keys.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the principal.")]
ROLE_HELP = "Role: agent, proposer, approver, admin or service."


@access_app.command("add")
def add(
    name: NameArgument,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help=ROLE_HELP)],
    reason: options.ReasonOption = "add a principal",
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Add a principal and print its token.

    The token is printed once. Its owner passes it as ATOLL_TOKEN. The first principal must be an admin. From then on
    every change of the store needs a token.

    \b
    Examples:
      atoll access add ann --role admin
      ATOLL_TOKEN=ann:... atoll access add helper --role agent
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import principals

    with parameter_stores.open_parameters(store, create=True) as param_store:
        author = _get_first_author(param_store, name)
        token = principals.add_principal(param_store, name, _parse_role(role), reason, author=author)
    if as_json:
        console.print_json({"name": name, "role": role, "token": token})
        return
    console.print_result(token)
    console.print_note(
        f"Added {name} as {role}. Keep the token secret and pass it as ATOLL_TOKEN; it is not shown again."
    )


@access_app.command("list")
def list_principals(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """List principals and their roles.

    \b
    Examples:
      atoll access list
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        control = param_store.get_access()
    rows = [(principal.name, str(principal.role)) for principal in control.principals.values()]
    if as_json:
        members = [{"name": name, "role": role} for name, role in rows]
        console.print_json({"single_user": control.is_single_user, "principals": members})
        return
    print_mode(control)
    if rows:
        console.print_result_table(("name", "role"), rows, flexible="name")


@access_app.command("revoke")
def revoke(
    name: NameArgument,
    reason: options.ReasonOption,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Revoke the token of a principal.

    Its earlier approvals of open proposals no longer count.

    \b
    Examples:
      atoll access revoke helper -m "the agent was replaced"
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import principals

    with parameter_stores.open_parameters(store) as param_store:
        principals.revoke_principal(param_store, name, reason)
    console.print_json({"name": name}) if as_json else console.print_result(f"Revoked {name}.")


@access_app.command("policy")
def policy(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", show_default=False, help='JSON file: {"rules": [...]}.')
    ] = None,
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Print the policy of keys, or replace it by FILE.

    A rule has a prefix and any of set, propose, approve (roles or names), quorum, schema, max_chars and needs
    (proposal, shadow, canary).

    \b
    Examples:
      echo '{"rules": [{"prefix": "prompt/", "needs": ["proposal"], "quorum": 2}]}' > policy.json
      atoll access policy policy.json -m "prompts need two approvers"
    """  # noqa: D301 - \b keeps line breaks
    import json

    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import principals

    with parameter_stores.open_parameters(store, create=file is not None) as param_store:
        if file is not None:
            parsing.check_reason(reason)
            rules = parsing.load_mapping(file).get("rules")
            if not isinstance(rules, list):
                raise errors.SetupError(f'{file} has no list of rules. Write {{"rules": [...]}}.')
            principals.set_policy(param_store, rules, reason, author=parsing.resolve_author(author))
        data = {"rules": [dict(rule.to_json()) for rule in param_store.get_access().rules]}
    console.print_json(data) if as_json else console.print_result(json.dumps(data, indent=2))


def print_mode(control: Any) -> None:
    """Says that a store without principals does not check names."""
    from atoll.cli.terminal import console
    from atoll.governed import principals

    if control.is_single_user:
        console.print_note(principals.SINGLE_USER_NOTE)


def _get_first_author(param_store: Any, name: str) -> str:
    return name if param_store.get_access().is_single_user else parsing.resolve_author(None)


def _parse_role(role: str) -> Any:
    from atoll.governed import principals

    if role not in principals.ROLES:
        raise errors.SetupError(f"Role {role!r:.40} is unknown. Use one of {', '.join(principals.ROLES)}.")
    return role
