import json
import subprocess
import sys
import urllib.request
from random import Random

import pytest

from bench import end_to_end, model_server

PROGRAM = (end_to_end.ROOT / end_to_end.TASK_DIR / "initial_program.py").read_text(encoding="utf-8")
OTHER = PROGRAM.replace("DECAY = 0.5", "DECAY = 0.25")
# As OpenEvolve asks: others before the current program, an empty block after it.
PEERS_PROMPT = f"""# Current Program Information
- Fitness: 0.5

# Program Evolution History
```python
{OTHER}
```

# Current Program
```python
{PROGRAM}
```

# Task
Rewrite the program to improve its FITNESS SCORE.
```python
# Your rewritten program here
```"""
OUR_PROMPT = f"""# Task
Improve it.

# Current program
Score: 0.5 (higher is better)
```python
{PROGRAM}```

# Another good program
```python
{OTHER}```
"""


@pytest.mark.parametrize("prompt", [PEERS_PROMPT, OUR_PROMPT])
def test_response_is_the_current_program_with_a_new_constant(prompt):
    reply = model_server.reply(prompt, Random(0))
    assert reply.startswith("```python\n")
    constant = next(line for line in reply.splitlines() if line.startswith("DECAY"))
    assert constant not in ("DECAY = 0.5", "DECAY = 0.25")
    assert reply.replace(constant, "DECAY = 0.5").strip("`python\n") == PROGRAM.strip()


def test_prompt_without_a_program_is_an_error():
    with pytest.raises(ValueError, match="no current program"):
        model_server.reply("# Current program\nthere is none", Random(0))


def test_server_reports_response_times_at_the_end():
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.model_server", "7"],
        cwd=end_to_end.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        texts = [ask(url) for _ in range(3)]
        replies = json.loads(process.communicate("", timeout=120)[0])
    assert len(set(texts)) == 3
    assert [length for _, length in replies] == [len(OUR_PROMPT)] * 3
    times = [time for time, _ in replies]
    assert times == sorted(times)


def ask(url: str) -> str:
    body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": OUR_PROMPT}]}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(f"{url}/chat/completions", body), timeout=60) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])
