"""The tokenizer, a lossless byte-level BPE (Sennrich, Haddow and Birch, arXiv 1508.07909), and documents of tokens.

The vocabulary has a token for each of the 256 bytes, so that every text can be encoded. The token that begins a
document, BOS, has the last number; no text is encoded to it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import SCORED
from tasks.errors import Failed
from tasks.records.reading import RecordsReader
from tasks.sources import not_utf8
from tasks.sources.features import of_role

TOKENIZER, LAYOUT = "tokenizer.json", "tokens.json"
BYTES = 256

PIECE = 128
"""Characters of a piece, at most. BPE merges within pieces, in time that is quadratic in their length, and a text
without spaces would be one piece."""

PIECES = (
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}{{1,{PIECE}}}| ?\p{{N}}{{1,{PIECE}}}| ?[^\s\p{{L}}\p{{N}}]{{1,{PIECE}}}"
    rf"|\s{{1,{PIECE}}}(?!\S)|\s{{1,{PIECE}}}"
)
"""The pieces of GPT-2 (Radford et al., 2019), bounded: words, numbers and other characters, each with the space before
them, and spaces."""

SEGMENT, BATCH = 1 << 18, 1 << 20
"""Characters of a segment of a long text, at most, and of the segments that are encoded at once."""

SPACE = re.compile(r"[^\S\x1c-\x1f]")
"""What both Python and the pattern of `PIECES` take for a space."""

Report = Callable[[int], None]
"""Called with the number of bytes that are done."""


class Codec:
    """A fitted tokenizer. `vocabulary`: number of tokens, BOS included; `bos`: number of BOS, the last one."""

    def __init__(self, tokenizer_json: str) -> None:
        """Create it from the contents of `transform/tokenizer.json`."""
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self.bos: int = self._tokenizer.get_vocab_size()
        self.vocabulary = self.bos + 1
        alphabet = _alphabet()
        names = (str(self._tokenizer.id_to_token(number)) for number in range(self.bos))
        self._bytes = [*(bytes(alphabet[character] for character in name) for name in names), b""]

    @classmethod
    def open(cls, transform: Path) -> Codec:
        """Load the tokenizer of a folder `transform/` of a snapshot or an export; raises `Failed` where it has none."""
        try:
            return cls((transform / TOKENIZER).read_text(encoding="utf-8"))
        except OSError as error:
            rule = "the transform of text holds it"
            raise Failed(
                str(transform / TOKENIZER), error.strerror, rule, "name a snapshot or export of text"
            ) from error

    @property
    def dtype(self) -> str:
        """The smallest dtype for all tokens, uint16 or uint32."""
        return "uint16" if self.vocabulary <= 2**16 else "uint32"

    def encode(self, texts: Sequence[str], report: Report = lambda done: None) -> list[NDArray[Any]]:
        """Return the tokens of each text, without BOS; they do not depend on the number of threads.

        `report` gets the number of bytes of the texts that are encoded.
        """
        parts: list[list[NDArray[Any]]] = [[] for _ in texts]
        done = 0
        for batch in _batches(enumerate(texts), self._tokenizer.pre_tokenizer):
            encodings = self._tokenizer.encode_batch_fast([segment for _, segment in batch], add_special_tokens=False)
            for (number, segment), encoding in zip(batch, encodings, strict=True):
                parts[number].append(np.array(encoding.ids, dtype=self.dtype))
                done += len(segment.encode())
            report(done)
        return [np.concatenate(segments) for segments in parts]

    def documents(
        self, texts: Sequence[NDArray[Any]], prompts: Sequence[NDArray[Any]] | None = None
    ) -> tuple[list[NDArray[Any]], list[int]]:
        """Return the tokens of documents, and how many of each are given: BOS and the text, or BOS, the prompt, the
        text, and a BOS by which a model learns to end."""
        bos = np.array([self.bos], self.dtype)
        if prompts is None:
            return [np.concatenate([bos, text]) for text in texts], [1] * len(texts)
        pairs = zip(prompts, texts, strict=True)
        return [np.concatenate([bos, *pair, bos]) for pair in pairs], [1 + len(prompt) for prompt in prompts]

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of these tokens; BOS has none."""
        return b"".join(self._bytes[token] for token in tokens)


def fit(texts: Iterable[str], vocabulary: int, report: Report = lambda done: None) -> str:
    """Fit a BPE of at most `vocabulary` tokens with BOS; return the contents of `transform/tokenizer.json`.

    `report` gets the number of bytes of the texts that are read.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PIECES), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.pre_tokenizer = pieces
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )

    def read() -> Iterator[str]:
        done = 0
        for _, segment in _segments(enumerate(texts), pieces):  # the tokenizer is locked meanwhile
            yield segment
            done += len(segment.encode())
            report(done)

    tokenizer.train_from_iterator(read(), trainer)
    tokenizer_json: str = tokenizer.to_str(pretty=True)
    return tokenizer_json


def _segments(texts: Iterable[tuple[int, str]], pre_tokenizer: Any) -> Iterator[tuple[int, str]]:
    """Yield each text in segments, which end where a piece ends, so that their pieces are those of the whole text."""
    for number, text in texts:
        start = 0
        while len(text) - start > SEGMENT:
            stop = _end_of_piece(text, start, start + SEGMENT, pre_tokenizer)
            yield number, text[start:stop]
            start = stop
        yield number, text[start:]


def _end_of_piece(text: str, start: int, stop: int, pre_tokenizer: Any) -> int:
    """Return the last place up to `stop` that is known to be the end of a piece, where `start` is one."""
    space = max(text.rfind(" ", start, stop), text.rfind("\n", start, stop))
    if space > start and not text[space - 1].isspace():
        return space
    # More text may change the last two pieces: ' and r become 're. What follows spaces changes the last of them.
    for _, (begin, _) in reversed(pre_tokenizer.pre_tokenize_str(text[start:stop])[1:-1]):
        place = start + int(begin)
        if not SPACE.match(text, place - 1) or SPACE.match(text, place):
            return place
    return stop


def _batches(texts: Iterable[tuple[int, str]], pre_tokenizer: Any) -> Iterator[list[tuple[int, str]]]:
    """Yield segments in batches of about `BATCH` characters, which threads encode."""
    batch: list[tuple[int, str]] = []
    for number, segment in _segments(texts, pre_tokenizer):
        batch.append((number, segment))
        if sum(len(each) for _, each in batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def layout(codec: Codec, columns: Columns, block: int, packing: str) -> dict[str, Any]:
    """Return the contents of `transform/tokens.json`: the preprocessing of text."""
    return {
        "packing": packing,
        "prompt": columns.prompt,
        "kind": "tokens",
        "tokenizer": TOKENIZER,
        "vocabulary": codec.vocabulary,
        "bos": codec.bos,
        "block": block,
        "dtype": codec.dtype,
    }


def scored(lengths: NDArray[np.int64], given: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which tokens of the concatenated documents are targets: all but the first `given` ones of each."""
    begins = np.cumsum(lengths) - lengths
    within = np.arange(lengths.sum()) - np.repeat(begins, lengths)
    return np.asarray(within >= np.repeat(given, lengths))


def read_layout(transform: Path) -> dict[str, Any]:
    """Read `transform/tokens.json`."""
    contents: dict[str, Any] = json.loads((transform / LAYOUT).read_bytes())
    return contents


def scored_bytes(codec: Codec, arrays: Mapping[str, Any], owners: NDArray[np.int64], documents: int) -> list[bytes]:
    """Return the bytes of the scored targets of each document of a split of pairs, given its arrays and their owners
    int64 [rows, block]."""
    of_pairs = np.asarray(arrays[SCORED][:])[:, 1:] > 0
    tokens, of = np.asarray(arrays["tokens"][:])[:, 1:][of_pairs], owners[of_pairs]
    ends = np.cumsum(np.bincount(of, minlength=documents))
    parts = np.split(tokens[np.argsort(of, kind="stable")], ends[:-1])
    return [codec.decode(part.tolist()) for part in parts]


def text_of(records: RecordsReader, split: str, index: int, column: str) -> str:
    """Return a document. Raises `Failed`, naming it, if it is not UTF-8."""
    content = bytes(records.example(split, index)[column][0])
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        saw = not_utf8(error)
        raise Failed(records.key(split, index), saw, "text must be UTF-8", "convert it, or leave it out") from error


def pin(threads: int) -> None:
    """Set the number of threads of the tokenizer, before its first use; results do not depend on it."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"


@dataclass(frozen=True)
class Columns:
    """The columns of records that documents are made of, in this order; iterated, those that there are."""

    prompt: str | None
    """What is given."""
    text: str
    """What is predicted."""

    def __iter__(self) -> Iterator[str]:
        return iter([self.text] if self.prompt is None else [self.prompt, self.text])


def text_columns(records: RecordsReader, prompt: str | None = None) -> Columns:
    """Return the text columns of records; raises `Failed` where there is not one besides the prompt."""
    inputs = of_role(records.features, "input")
    texts = [name for name, feature in inputs.items() if feature.kind == "text" and name != prompt]
    if len(texts) != 1 or len(inputs) != (1 if prompt is None else 2) or prompt not in (None, *inputs):
        saw = f"records of {', '.join(sorted(records.features))}"
        made = "one input, a text" if prompt is None else f"two inputs, the prompt {prompt} and a text"
        raise Failed("snapshot.kind", saw, f"tokens are made of {made}", "choose a source of text, or other columns")
    return Columns(prompt, texts[0])


def _alphabet() -> dict[str, int]:
    """Return the byte of each character of a byte-level token: printable Latin-1 as is, the others from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(BYTES) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(BYTES + index): byte for index, byte in enumerate(hidden)}
