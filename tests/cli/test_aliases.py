"""Names of version 0.1.0 work, are absent from the help, and print a hint."""

import json
import re
from typing import Any

import pytest
import typer

from atoll import cli
from atoll.cli import aliases
from tests.cli import apps

# Every command and option of version 0.1.0.
OLD_COMMANDS = """
demo --seconds --steps --seed --workers --store --json
init --json
run --config -c --llm --iterations -i --episodes --budget --target --target-score -t --seed --workers --deterministic --set --executor --require-sandbox --unsafe --unsafe-env --checkpoint --output -o --api-base --primary-model --secondary-model --log-level -l --shared --lease-seconds --baselines --save-run --save-report --tick-delay --linger --dashboard --store --json --quiet -q
resume --llm --iterations --budget --target --target-score -t --workers --set --executor --require-sandbox --unsafe --unsafe-env --baselines --linger --dashboard --store --json --quiet -q
join --workers --set --executor --require-sandbox --unsafe --unsafe-env --lease-seconds --store --json --quiet -q
control --store --author --json
list --limit -n --store --json
show --prompt --store --json
best --output -o --island -n --store --json
diff --store --json
lineage --island --diffs --all --store --json
tree --level --island --store --json
compare --store --json
report --output -o --store
export --jsonl --csv --dataset --html --replay --openevolve --output -o --store
import --config -c --store --json
replay --feedback -f --since --until --window --attribution --by --on-issue --checkpoint --estimate --policy --store --json
shadow --with --task --seeds --iterations -i --set --traffic --min-effect --guard --alpha --rollout --keep --store --json
dashboard --host --port --token --store
doctor --store --json
rollout start --guard --reason -m --author --proposer --shares --min-samples --min-time --bake --cooldown --alpha --skip-shadow --store --json
rollout status --store --json
rollout tick --feedback -f --store --json
rollout serve --store --json
rollout abort --reason -m --author --store --json
llm fetch
llm serve --port --threads --context
llm ping --timeout-seconds --json
worldlines list --store --json
worldlines show --store --json
worldlines diff --store
worldlines approve --reason --author --commit --store --json
worldlines reject --reason --author --commit --store --json
worldlines merge --store --json
playbook show --version -v --key --store --json
playbook history --limit -n --key --store --json
playbook held --key --store --json
playbook apply --reason --author --key --store --json
playbook reject --reason --author --key --store --json
playbook rollback --reason --key --store --json
playbook stats --key --store --json
playbook export --key --store
playbook import --key --store
proposals list --status --store --json
proposals show --store --json
proposals submit --title --rationale --author --store --json
proposals edit --reason -m --author --store --json
proposals approve --reason -m --author --hash --store --json
proposals reject --reason -m --author --store --json
proposals withdraw --reason -m --author --store --json
proposals apply --store --json
tools list --store --json
tools show --store --json
tools add --author --store --json
tools call --input --seconds --unsafe --store --json
tools rollback --reason -m --author --store
tools serve --port --seconds --unsafe --store
skills list --store --json
skills show --store --json
skills add --author --store --json
skills export --store
skills used --well --in-vain --store --json
params set --reason -m --author --expect --rules --store --json
params rollback --reason -m --author --store --json
params lock --reason -m --author --store --json
params unlock --reason -m --author --store --json
params alias --reason -m --author --expect --store --json
params import --flyto --prefix --reason -m --author --rules --store --json
params evolvable --store --json
params get --as-of --default --store --json
params list --all --store --json
params history -n --limit --store --json
params diff --store --json
params watch --after --timeout --store --json
params export --log --as-of --output -o --store
audit verify --anchors --key --log --store --json
audit anchor --key --output -o --store
store copy --json
store check --json
store upgrade
"""  # noqa: E501 - one command a line

ROOT = typer.main.get_command(cli.app)


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Returns the command that arguments name, and the remaining arguments."""
    command: Any = ROOT
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def list_options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("line", OLD_COMMANDS.strip().splitlines(), ids=lambda line: line.split(" -")[0])
def test_every_old_command_and_option_is_known(line):
    path = [word for word in line.split() if not word.startswith("-")]
    for option in (word for word in line.split() if word.startswith("-")):
        estimate = ["--estimate", "won"] if (path, option) == (["replay"], "--policy") else []  # used together
        words, _ = aliases.translate([*path, option, "1", *estimate])
        command, remaining = find_command(words)
        assert not hasattr(command, "commands"), f"{path} is not a command"
        options = [word for word in remaining if word.startswith("-")]
        assert set(options) <= list_options(command), f"{path} {option} became {words}"


@pytest.mark.parametrize(("old", "new"), aliases.COMMANDS.items(), ids=" ".join)
def test_old_command_prints_hint_and_is_hidden(old, new, capsys):
    assert cli.main([*old, "--help"]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"atoll: 'atoll {' '.join(old)}' is now 'atoll {' '.join(new)}'.\n"
    assert f"Usage: atoll {' '.join(new)} " in printed.out
    assert cli.main([*old[:-1], "--help"]) == 0
    assert f"\n  {old[-1]} " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("export latest --jsonl", "export latest --format jsonl", "'--jsonl' is now '--format jsonl'."),
        ("export latest --openevolve out", "export latest --format openevolve -o out", "'--openevolve' is now"),
        ("export latest --openevolve=out", "export latest --format openevolve -o out", "'--openevolve' is now"),
        ("demo --steps 5", "demo --iterations 5", "'--steps' is now '--iterations'."),
        ("audit anchor -o a.jsonl", "audit anchor --append a.jsonl", "'-o' is now '--append'."),
        ("audit anchor -oa.jsonl", "audit anchor --append a.jsonl", "'-o' is now '--append'."),
        ("shadow k 1 --keep", "rollout shadow k 1 --save", "'--keep' is now '--save'."),
        ("skills used x --in-vain", "skills record-use x --failure", "'--in-vain' is now '--failure'."),
        (
            "replay logs -f feedback --estimate won --policy {}",
            "logs estimate logs -f feedback --policy {} won",
            "'replay --estimate METRIC' is now 'atoll logs estimate LOG METRIC'.",
        ),
        ("run task --llm replay:file", "run task --llm replay:file", "'replay:file' is now 'recorded:file'."),
        ("show latest start", "show latest start", "'start' is now 'initial'."),
        ("diff latest:start latest", "diff latest:start latest", "'latest:start' is now 'latest:initial'."),
    ],
)
def test_old_names_are_translated(old, new, hint):
    words, hints = aliases.translate(old.split())
    assert words == new.split()
    assert any(line.startswith(hint) for line in hints)


@pytest.mark.parametrize("line", ["run task --seed 3", "params set --jsonl 1", "export latest -- --jsonl", ""])
def test_other_arguments_stay_and_print_no_hint(line):
    assert aliases.translate(line.split()) == (line.split(), [])


def test_old_and_new_export_give_the_same_bytes(shell):
    old, new = shell("export", "latest", "--jsonl"), shell("export", "latest", "--format", "jsonl")
    assert old.out == new.out
    assert old.err == "atoll: '--jsonl' is now '--format jsonl'.\n"


def test_old_name_of_the_initial_candidate_works(shell):
    old, new = shell("show", "again", "start", "--json"), shell("show", "again", "initial", "--json")
    assert old.json() == new.json()
    assert json.loads(new.out)["id"] == "0.0"
    assert re.fullmatch(r"atoll: 'start' is now 'initial'\.\n", old.err)


def test_openevolve_options_of_run_are_hidden():
    command, _ = find_command(["run"])
    hidden = {name for parameter in command.params if getattr(parameter, "hidden", False) for name in parameter.opts}
    assert hidden == {"--output", "-o", "--api-base", "--primary-model", "--secondary-model"}
