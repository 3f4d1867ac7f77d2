"""Text generation by sampling with a fixed seed."""

from __future__ import annotations

import numpy as np

from tasks.models.features import TOKENS
from tasks.models.forward import Call
from tasks.snapshots.text import Codec

SEED = 0


def sample(
    call: Call, codec: Codec, prompt: str, count: int, temperature: float, block: int, *, document: bool = True
) -> str:
    """Generate up to `count` tokens after `prompt`, sampled from softmax(logits / temperature); return their text.

    The context is at most the last `block` tokens. `document`: the prompt begins a document, with a BOS before it.
    Generation ends early where the model begins another document.
    """
    tokens = [codec.bos] * document + [int(token) for token in codec.encode([prompt])[0]]
    tokens = tokens or [codec.bos]
    prompt_length, random = len(tokens), np.random.default_rng(SEED)
    for _ in range(count):
        logits = call({TOKENS: np.array([tokens[-block:]], np.int32)})[0, -1].astype(np.float64)
        chances = np.exp((logits - logits.max()) / temperature)
        token = int(np.searchsorted(np.cumsum(chances), random.random() * chances.sum(), side="right"))
        token = min(token, len(chances) - 1)
        if token == codec.bos:
            break
        tokens.append(token)
    return codec.decode(tokens[prompt_length:]).decode(errors="replace")
