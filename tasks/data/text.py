"""The tokenizer, a lossless byte-level BPE (Sennrich, Haddow and Birch, arXiv 1508.07909), and documents of tokens.

The vocabulary has a token for each of the 256 bytes, so that every text can be encoded. The token that begins a
document, BOS, has the last number; no text is encoded to it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.data.reading import RecordsReader
from tasks.errors import Failed

if TYPE_CHECKING:
    from tasks.data.pipeline import SnapshotReader

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
        self._tokenizer = _tokenizers().Tokenizer.from_str(tokenizer_json)
        self.bos: int = self._tokenizer.get_vocab_size()
        self.vocabulary = self.bos + 1
        alphabet = _alphabet()
        names = (self._tokenizer.id_to_token(number) for number in range(self.bos))
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

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of these tokens; BOS has none."""
        return b"".join(self._bytes[token] for token in tokens)


def fit(texts: Iterable[str], vocabulary: int, report: Report = lambda done: None) -> str:
    """Fit a BPE of at most `vocabulary` tokens with BOS; return the contents of `transform/tokenizer.json`.

    `report` gets the number of bytes of the texts that are read.
    """
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

    tokenizer = _tokenizers().Tokenizer(models.BPE())
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


def layout(codec: Codec, block: int) -> dict[str, Any]:
    """Return the contents of `transform/tokens.json`: the preprocessing of text."""
    return {
        "kind": "tokens",
        "tokenizer": TOKENIZER,
        "vocabulary": codec.vocabulary,
        "bos": codec.bos,
        "block": block,
        "dtype": codec.dtype,
    }


def read_layout(transform: Path) -> dict[str, Any]:
    """Read `transform/tokens.json`."""
    contents: dict[str, Any] = json.loads((transform / LAYOUT).read_bytes())
    return contents


def document_of_targets(snapshot: SnapshotReader, split: str) -> NDArray[np.int64]:
    """Return the record of each target of a split, int64 [rows, block] in stored order; -1 for padding.

    Target `c` of a row is its token `c + 1`. A BOS belongs to the record that it begins.
    """
    origin, pieces = snapshot.lineage(split)
    width = int(snapshot.features["tokens"]["shape"][0])
    record, _, length, column = pieces.T
    row = np.repeat(np.arange(len(origin)), origin[:, 1])
    first = row * width + column
    positions = np.repeat(first - (np.cumsum(length) - length), length) + np.arange(length.sum())
    records = np.full(len(origin) * width, -1, np.int64)
    records[positions] = np.repeat(record, length)
    return records.reshape(len(origin), width)[:, 1:]


def raw_lengths(records: RecordsReader, split: str) -> NDArray[np.int64]:
    """Return the number of bytes of each document of a split, by record."""
    name = text_feature(records)
    return np.array([len(bytes(example[name][0])) for example in records.iterate(split)], dtype=np.int64)


def raw_bytes(records: RecordsReader, split: str) -> bytes:
    """Return the concatenated documents of a split."""
    name = text_feature(records)
    return b"".join(bytes(example[name][0]) for example in records.iterate(split))


def text_of(records: RecordsReader, split: str, index: int) -> str:
    """Return a document. Raises `Failed`, naming it, if it is not UTF-8."""
    content = bytes(records.example(split, index)[text_feature(records)][0])
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        saw = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        raise Failed(records.key(split, index), saw, "text must be UTF-8", "convert it, or leave it out") from error


def pin(threads: int) -> None:
    """Set the number of threads of the tokenizer, before its first use; results do not depend on it."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"


def text_feature(records: RecordsReader) -> str:
    """Return the name of the only input; raises `Failed` where it is not a text."""
    name = records.single_input("text")
    if name is None:
        saw = f"records of {', '.join(sorted(records.features))}"
        raise Failed("snapshot.kind", saw, "tokens are made of one input, a text", "choose a source of text")
    return name


def _tokenizers() -> Any:
    import tokenizers

    return tokenizers


def _alphabet() -> dict[str, int]:
    """Return the byte of each character of a byte-level token: printable Latin-1 as is, the others from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(BYTES) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(BYTES + index): byte for index, byte in enumerate(hidden)}
