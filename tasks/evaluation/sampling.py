"""Text that a language model makes up, the same each time."""

from __future__ import annotations

import numpy as np

from tasks.data.text import Codec
from tasks.evaluation.judging import Call

SEED = 0


def sample(
    call: Call, codec: Codec, prompt: str, count: int, temperature: float, block: int, *, document: bool = True
) -> str:
    """`count` tokens after `prompt`, drawn one by one from the softmax of logits / temperature; without the prompt.

    The model sees at most `block` tokens back. `document`: the prompt begins a document. It ends where the model
    begins another one.
    """
    tokens = [codec.bos] * document + [int(token) for token in codec.encode([prompt])[0]]
    tokens = tokens or [codec.bos]
    begun, random = len(tokens), np.random.default_rng(SEED)
    for _ in range(count):
        logits = call(np.array([tokens[-block:]], np.int32))[0, -1].astype(np.float64)
        chances = np.exp((logits - logits.max()) / temperature)
        chosen = int(np.searchsorted(np.cumsum(chances), random.random() * chances.sum(), side="right"))
        chosen = min(chosen, len(chances) - 1)
        if chosen == codec.bos:
            break
        tokens.append(chosen)
    return codec.decode(tokens[begun:]).decode(errors="replace")
