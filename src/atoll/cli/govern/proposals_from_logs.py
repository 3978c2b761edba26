"""Command `proposals from-logs`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.govern import proposals
from atoll.cli.terminal import options, parsing

app = proposals.app


@app.command("from-logs")
def propose_from_logs(
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="Use feedback of this metric only.")],
    log: Annotated[
        str | None, typer.Option("--log", metavar="LOG", help="Log folder or store; default: the store itself.")
    ] = None,
    feedback: options.FeedbackOption = None,
    lower: Annotated[bool, typer.Option("--lower", help="Lower values of the metric are better.")] = False,
    key: Annotated[
        list[str] | None, typer.Option("--param", metavar="KEY", help="Parameter to change; may be repeated.")
    ] = None,
    llm: options.LLMOption = None,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, max=10, metavar="N", help="Bundles to ask for.")
    ] = 1,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="First time to include.")] = "1970-01-01",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Last time to include.")] = "9000-01-01",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the bundles; submit nothing.")] = False,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Reflect on logged transcripts and propose changes.

    Without --llm it proposes values that were clearly better in the log than the current ones. With --llm the LLM reads
    the best and the worst transcripts and proposes new values. Each proposal is a bundle with its evidence.

    \b
    Examples:
      atoll proposals from-logs --metric late --lower
      atoll proposals from-logs --metric stars --param prompt/system --llm openai:gpt-5-mini
      atoll proposals from-logs --metric late --log logs -f feedback --dry-run --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        evolver = proposals.open_evolver(run_store)
        reflector = _read_logs(log or str(store), feedback or str(store), metric, lower, since, until)
        if not reflector.moments.count:
            raise errors.SetupError(f"No logged decision has feedback of metric {metric}. Report some first.")
        bundles, problems = _make_bundles(evolver, reflector, key, llm, candidates)
        results: list[Any] = []
        for bundle in bundles:
            if dry_run:
                results.append(bundle._asdict())
                continue
            name = parsing.resolve_author(author)
            proposal = evolver.propose(
                "optimize", bundle.title, bundle.content, name, rationale=bundle.rationale, evidence=bundle.evidence
            )
            results.append(proposal)
    for problem in problems:
        console.print_note(problem)
    if as_json:
        console.print_json([item if dry_run else item.to_json() for item in results])
        return
    for item in results:
        if dry_run:
            console.print_result(f"{item['title']}: {item['changes']}")
        else:
            proposals.print_proposal(item, False)
    if not results:
        console.print_note(f"No proposal from {reflector.moments.count:,} measured decisions.")


def _read_logs(log: str, feedback: str, metric: str, lower: bool, since: str, until: str) -> Any:
    from datetime import timedelta

    from atoll.cli.data import log_sources
    from atoll.governed.agent import transcripts
    from atoll.governed.evidence import attribution, replayer

    reflector = transcripts.TranscriptReflector(metric, lower_is_better=lower)
    sources = log_sources.LogSources(log, feedback, store_url=log, on_issue="skip", group_by="mutator")
    try:
        replay = replayer.LogReplayer(
            sources.log, sources.channel, window=timedelta(days=30), attribution=attribution.ATTRIBUTIONS["decision"]
        )
        replay.register(reflector)
        replay.replay(parsing.parse_time(since), parsing.parse_time(until))
    finally:
        sources.close()
    return reflector


def _make_bundles(evolver: Any, reflector: Any, keys: list[str] | None, llm_name: str | None, num: int) -> Any:
    from atoll import llm as llms
    from atoll.governed.agent import transcripts

    keys = [name for name in keys or reflector.keys if name in evolver.store]
    if not keys:
        raise errors.SetupError("The log names no parameter of the store. Pass --param KEY.")
    model = llms.make_llm(llm_name) if llm_name else None
    if model is None:
        return transcripts.propose_used_values(reflector, evolver.store, keys), []
    return transcripts.propose_with_llm(
        reflector, evolver.store, keys, model, num_candidates=num, history=evolver.history()
    )
