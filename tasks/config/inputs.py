"""Kinds of a model's inputs, by which augmentations and orders are chosen, and the types in which they are served."""

from __future__ import annotations

IMAGE, SOUND, TOKENS = "image", "sound", "tokens"
"""uint8 [height, width, channels], float32 [time, bands], ids of a text [length]."""
PREDICTED = "tokens to predict"
"""Of a language model, which no augmentation changes."""
NUMBERS, ARRAY = "numbers", "array"
"""All others, of one dimension or none, and of more."""

SERVED_AS = {"uint16": "int32", "uint32": "int32"}
"""The dtype of a model's input where no runtime has that of the snapshot."""
