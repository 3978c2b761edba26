"""Serves a small LLM on one CUDA device for the benchmarks, with many calls at the same time.

    python3 bench/cuda_server.py MODEL.gguf --port 8100 --slots 192     # prints "ready"

It reads GGUF weights of the Qwen2 family and needs torch, triton, transformers and gguf, but nothing of Atoll. The
endpoint is `POST /v1/chat/completions` on loopback; `GET /stats` returns calls and tokens. On an H200 the 1.5B
model answers about 20 calls a second with prompts of 1,000 tokens; loading takes 90 seconds.

A slot holds the keys and values of one call. A decoding step computes one token of all slots and is one CUDA graph.
Waiting prompts are computed together as one long sequence, because launches of kernels would take most of the time.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

TOP_TOKENS = 64  # most likely tokens that are drawn from
STEPS = 4  # decoding steps between two looks at the results
PACKED_TOKENS = 12_288  # of prompts that are computed together
MAX_RESPONSE = 2048
DEVICE = "cuda"


@triton.jit
def add_and_normalize(x, residual, weight, out, eps, width: tl.constexpr, block: tl.constexpr, adds: tl.constexpr):
    """RMS norm of a row, after a residual was added to it."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    mask = column < width
    value = tl.load(x + row * width + column, mask=mask, other=0.0).to(tl.float32)
    if adds:
        value += tl.load(residual + row * width + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(x + row * width + column, value.to(tl.bfloat16), mask=mask)
        value = value.to(tl.bfloat16).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / width + eps)
    factor = tl.load(weight + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * width + column, (value * scale * factor).to(tl.bfloat16), mask=mask)


@triton.jit
def rotate_and_cache(
    qkv,
    cos,
    sin,
    positions,
    slots,
    keys,
    values,
    slot_stride,
    head_stride,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    dim: tl.constexpr,
):
    """Rotary embedding of queries in place and of keys into the cache; copies values into the cache."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    position = tl.load(positions + token)
    slot = tl.load(slots + token)
    half: tl.constexpr = dim // 2
    column = tl.arange(0, half)
    source = qkv + token * ((heads + 2 * kv_heads) * dim) + head * dim
    first = tl.load(source + column).to(tl.float32)
    second = tl.load(source + half + column).to(tl.float32)
    if head < heads + kv_heads:
        c = tl.load(cos + position * half + column)
        s = tl.load(sin + position * half + column)
        rotated = first * c - second * s
        second = second * c + first * s
        first = rotated
    place = slot * slot_stride + position * dim
    if head < heads:
        target = source
    elif head < heads + kv_heads:
        target = keys + place + (head - heads) * head_stride
    else:
        target = values + place + (head - heads - kv_heads) * head_stride
    tl.store(target + column, first.to(tl.bfloat16))
    tl.store(target + half + column, second.to(tl.bfloat16))


@triton.jit
def attend_one(
    qkv,
    keys,
    values,
    positions,
    out,
    scale,
    slot_stride,
    head_stride,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    dim: tl.constexpr,
    block: tl.constexpr,
):
    """Attention of one new token per slot to the cache, for all queries of one key head."""
    slot = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    group: tl.constexpr = heads // kv_heads
    count = tl.load(positions + slot) + 1
    query = tl.arange(0, 16)
    column = tl.arange(0, dim)
    rows = (head * group + query)[:, None] * dim + column[None, :]
    is_query = (query < group)[:, None]
    q = tl.load(qkv + slot * ((heads + 2 * kv_heads) * dim) + rows, mask=is_query, other=0.0)
    largest = tl.full([16], -1e30, tl.float32)
    total = tl.zeros([16], tl.float32)
    result = tl.zeros([16, dim], tl.float32)
    start = slot * slot_stride + head * head_stride
    for begin in range(0, count, block):
        index = begin + tl.arange(0, block)
        is_known = index < count
        place = start + index[:, None] * dim + column[None, :]
        k = tl.load(keys + place, mask=is_known[:, None], other=0.0)
        score = tl.where(is_known[None, :], tl.dot(q, tl.trans(k)) * scale, -1e30)
        new_largest = tl.maximum(largest, tl.max(score, 1))
        weight = tl.exp(score - new_largest[:, None])
        decay = tl.exp(largest - new_largest)
        total = total * decay + tl.sum(weight, 1)
        v = tl.load(values + place, mask=is_known[:, None], other=0.0)
        result = result * decay[:, None] + tl.dot(weight.to(tl.bfloat16), v)
        largest = new_largest
    result = result / total[:, None]
    tl.store(out + slot * (heads * dim) + rows, result.to(tl.bfloat16), mask=is_query)


@triton.jit
def gate_and_multiply(gates, out, width: tl.constexpr, block: tl.constexpr):
    """SiLU of the first half of a row, times the second half."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    mask = column < width
    gate = tl.load(gates + row * 2 * width + column, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gates + row * 2 * width + width + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * width + column, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=mask)


class Call:
    """One request: its prompt as tokens, and its response so far."""

    def __init__(self, prompt: Sequence[int], max_tokens: int, temperature: float, top_p: float) -> None:
        self.prompt, self.max_tokens, self.temperature, self.top_p = prompt, max_tokens, temperature, top_p
        self.response = list[int]()
        self.is_complete = threading.Event()
        self.finish_reason = "stop"


class Engine:
    """Computes responses, in one thread."""

    def __init__(self, path: str, num_slots: int, length: int) -> None:
        folder, file = os.path.split(os.path.abspath(path))
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.bfloat16)
        config = model.config
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._width, self._inner_width = config.hidden_size, config.intermediate_size
        self._dim, self._eps = config.hidden_size // self._heads, config.rms_norm_eps
        theta = getattr(config, "rope_theta", None) or (config.rope_parameters or {}).get("rope_theta", 1e6)
        weights = {name: value.detach().to(DEVICE, torch.bfloat16) for name, value in model.state_dict().items()}
        self._layers = [_read_layer(weights, f"model.layers.{index}.") for index in range(config.num_hidden_layers)]
        self._embedding, self._norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self._output = weights.get("lm_head.weight", self._embedding)
        inverse = 1.0 / theta ** (torch.arange(0, self._dim, 2, device=DEVICE).float() / self._dim)
        angles = torch.arange(length, device=DEVICE).float()[:, None] * inverse[None]
        self._cos, self._sin = angles.cos().contiguous(), angles.sin().contiguous()
        self._num_slots, self.length = num_slots, length
        shape = (len(self._layers), num_slots, self._kv_heads, length, self._dim)
        self._keys, self._values = (torch.zeros(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
        self._tokens, self._positions = (torch.zeros(num_slots, device=DEVICE, dtype=torch.long) for _ in range(2))
        self._all_slots = torch.arange(num_slots, device=DEVICE)
        self._temperature, self._top_p = (torch.ones(num_slots, device=DEVICE) for _ in range(2))
        self._log = torch.zeros(STEPS, num_slots, device=DEVICE, dtype=torch.long)
        self._ends = {self.tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")}
        self.waiting = queue.Queue[Call]()
        self._running: dict[int, Call] = {}
        self._free = list(range(num_slots))
        self.stats = {"calls": 0, "tokens_in": 0, "tokens_out": 0, "started_at": time.time()}
        self._graph = self._capture()

    def _compute(
        self, tokens: Any, positions: Any, slots: Any, attend: Callable[[Any, Any, Any], Any], rows: Any = None
    ) -> Any:
        """Returns the last hidden state of the given rows, and fills the cache."""
        count, block = tokens.shape[0], triton.next_power_of_2(self._width)
        x = functional.embedding(tokens, self._embedding)
        hidden = torch.empty_like(x)
        inner = torch.empty(count, self._inner_width, device=DEVICE, dtype=torch.bfloat16)
        residual = None
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            has_residual = residual is not None
            add_and_normalize[(count,)](
                x, residual if has_residual else x, layer["n1"], hidden, self._eps, self._width, block, has_residual
            )
            qkv = functional.linear(hidden, layer["qkv"], layer["bias"])
            strides = (keys.stride(0), keys.stride(1), self._heads, self._kv_heads, self._dim)
            grid = (count, self._heads + 2 * self._kv_heads)
            rotate_and_cache[grid](qkv, self._cos, self._sin, positions, slots, keys, values, *strides, num_warps=1)
            residual = functional.linear(attend(qkv, keys, values), layer["o"])
            add_and_normalize[(count,)](x, residual, layer["n2"], hidden, self._eps, self._width, block, True)
            gates = functional.linear(hidden, layer["gate_up"])
            gate_and_multiply[(count, triton.cdiv(self._inner_width, 2048))](gates, inner, self._inner_width, 2048)
            residual = functional.linear(inner, layer["down"])
        if rows is not None:
            x, residual = x[rows].contiguous(), residual[rows].contiguous()
            hidden = torch.empty_like(x)
        add_and_normalize[(x.shape[0],)](x, residual, self._norm, hidden, self._eps, self._width, block, True)
        return hidden

    def _read_prompts(self, slots: Sequence[int], prompts: Sequence[Sequence[int]]) -> Any:
        """Fills the cache with several prompts at once; returns the last hidden state of each."""
        sizes = [len(prompt) for prompt in prompts]
        rows = [[token for prompt in prompts for token in prompt], [i for size in sizes for i in range(size)]]
        rows.append([slot for slot, size in zip(slots, sizes, strict=True) for _ in range(size)])
        packed = torch.tensor(rows).to(DEVICE)
        ends = torch.tensor(sizes).cumsum(0).sub(1).to(DEVICE)

        def attend(qkv: Any, keys: Any, values: Any) -> Any:
            out = torch.empty(qkv.shape[0], self._heads, self._dim, device=DEVICE, dtype=torch.bfloat16)
            queries, begin = qkv.view(qkv.shape[0], -1, self._dim)[:, : self._heads], 0
            for slot, size in zip(slots, sizes, strict=True):
                own = queries[begin : begin + size].transpose(0, 1)[None]
                known = (keys[slot, :, :size][None], values[slot, :, :size][None])
                result = functional.scaled_dot_product_attention(own, *known, is_causal=True, enable_gqa=True)
                out[begin : begin + size] = result[0].transpose(0, 1)
                begin += size
            return out.view(qkv.shape[0], -1)

        return self._compute(packed[0], packed[1], packed[2], attend, ends)

    def _step(self) -> None:
        """Computes one token of every slot."""

        def attend(qkv: Any, keys: Any, values: Any) -> Any:
            out = torch.empty(self._num_slots, self._heads * self._dim, device=DEVICE, dtype=torch.bfloat16)
            sizes = (self._dim**-0.5, keys.stride(0), keys.stride(1), self._heads, self._kv_heads, self._dim, 64)
            attend_one[(self._num_slots, self._kv_heads)](qkv, keys, values, self._positions, out, *sizes)
            return out

        hidden = self._compute(self._tokens, self._positions, self._all_slots, attend)
        self._tokens.copy_(self._draw(hidden, self._temperature, self._top_p))
        self._positions.add_(1).clamp_(max=self.length - 1)

    def _draw(self, hidden: Any, temperature: Any, top_p: Any) -> Any:
        top, tokens = functional.linear(hidden, self._output).float().topk(TOP_TOKENS, -1)
        shares = (top / temperature.clamp(min=1e-3)[..., None]).softmax(-1)
        shares = shares * (shares.cumsum(-1) - shares < top_p[..., None])
        noise = -torch.empty_like(shares).exponential_().log()
        return tokens.gather(-1, (shares.log() + noise).argmax(-1, keepdim=True))[..., 0]

    def _capture(self) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            self._step()
        self._tokens.zero_()
        self._positions.zero_()
        return graph

    def _admit(self) -> None:
        """Starts waiting calls in free slots; waits for one if nothing runs."""
        calls, num_tokens = list[Call](), 0
        while len(calls) < len(self._free) and num_tokens < PACKED_TOKENS:
            try:
                calls.append(self.waiting.get(block=not self._running and not calls))
            except queue.Empty:
                break
            num_tokens += len(calls[-1].prompt)
        if not calls:
            return
        slots = [self._free.pop() for _ in calls]
        hidden = self._read_prompts(slots, [call.prompt for call in calls])
        index, temperature, top_p, positions = (
            torch.tensor(values, device=DEVICE)
            for values in (
                slots,
                [call.temperature for call in calls],
                [call.top_p for call in calls],
                [len(call.prompt) for call in calls],
            )
        )
        first = self._draw(hidden, temperature, top_p)
        self._temperature[index], self._top_p[index] = temperature, top_p
        self._tokens[index], self._positions[index] = first, positions
        for call, slot, token in zip(calls, slots, first.tolist(), strict=True):
            self.stats["calls"] += 1
            self.stats["tokens_in"] += len(call.prompt)
            self._running[slot] = call
            self._take(slot, token)

    def _take(self, slot: int, token: int) -> bool:
        """Adds a token to the response of a slot. Returns whether the response has ended."""
        call = self._running[slot]
        has_ended = token in self._ends
        if not has_ended:
            call.response.append(token)
            self.stats["tokens_out"] += 1
        is_full = len(call.prompt) + len(call.response) + STEPS + 1 >= self.length
        if not has_ended and len(call.response) < call.max_tokens and not is_full:
            return False
        call.finish_reason = "stop" if has_ended else "length"
        del self._running[slot]
        self._free.append(slot)
        call.is_complete.set()
        return True

    @torch.no_grad()
    def run(self) -> None:
        """Computes responses until the process ends; an error ends it."""
        try:
            while True:
                if self._free and (not self._running or not self.waiting.empty()):
                    self._admit()
                if not self._running:
                    continue
                for step in range(STEPS):
                    self._graph.replay()
                    self._log[step].copy_(self._tokens)
                tokens = self._log.tolist()
                ended = [
                    slot for slot in list(self._running) if any(self._take(slot, row[slot]) for row in tokens)
                ]  # `any` stops at the end of a response
                if ended:
                    self._positions[torch.tensor(ended, device=DEVICE)] = 0
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def respond(self, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the response to a request of the OpenAI interface."""
        text = self.tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        prompt = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        max_tokens = min(int(body.get("max_tokens") or body.get("max_completion_tokens") or 1024), MAX_RESPONSE)
        temperature = body.get("temperature")
        call = Call(
            prompt[: self.length - max_tokens - STEPS - 4],
            max_tokens,
            0.8 if temperature is None else float(temperature),
            float(body.get("top_p") or 1.0),
        )
        self.waiting.put(call)
        call.is_complete.wait()
        message = {"role": "assistant", "content": self.tokenizer.decode(call.response)}
        usage = {"prompt_tokens": len(call.prompt), "completion_tokens": len(call.response)}
        return {
            "id": "call",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", "local"),
            "choices": [{"index": 0, "finish_reason": call.finish_reason, "message": message}],
            "usage": usage | {"total_tokens": sum(usage.values())},
        }


def _read_layer(weights: dict[str, Any], prefix: str) -> dict[str, Any]:
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    return {
        "n1": weights[f"{prefix}input_layernorm.weight"],
        "n2": weights[f"{prefix}post_attention_layernorm.weight"],
        "qkv": torch.cat([weights[f"{attention}{name}_proj.weight"] for name in "qkv"]),
        "bias": torch.cat([weights[f"{attention}{name}_proj.bias"] for name in "qkv"]),
        "o": weights[f"{attention}o_proj.weight"],
        "gate_up": torch.cat([weights[f"{mlp}{name}_proj.weight"] for name in ("gate", "up")]),
        "down": weights[f"{mlp}down_proj.weight"],
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_GET(self) -> None:
        self._send(self.engine.stats)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(self.engine.respond(body))

    def _send(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--slots", type=int, default=192, help="calls at the same time")
    parser.add_argument("--length", type=int, default=8192, help="most tokens of a prompt and its response")
    options = parser.parse_args()
    sys.setswitchinterval(1e-4)  # threads of requests must not hold up the engine
    Handler.engine = Engine(options.model, options.slots, options.length)
    threading.Thread(target=Handler.engine.run, daemon=True).start()
    print("ready", flush=True)
    Server(("127.0.0.1", options.port), Handler).serve_forever()
