"""Commands `access add`, `list`, `revoke` and `policy`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

app = options.make_group("Manage principals, their roles and the policy of keys.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the principal.")]
ROLE_HELP = "Role: agent, proposer, approver, admin or service."


@app.command("add")
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


@app.command("list")
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


@app.command("revoke")
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


@app.command("policy")
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
