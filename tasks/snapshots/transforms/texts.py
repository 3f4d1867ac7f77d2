"""Transforms of texts and lists of words: tokens, ids of words, hashes of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config import task
from tasks.config.base import Conflict
from tasks.reader.tokens import PADDING
from tasks.reader.values import Values
from tasks.reader.words import FIRST, UNKNOWN, plain
from tasks.snapshots.transforms.categories import most_frequent, refuse_too_many
from tasks.snapshots.transforms.graphs import Graph
from tasks.snapshots.transforms.samples import TextSample
from tasks.snapshots.transforms.transform import Fitted, Fitter, Known, Rows, Transform, own_array
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf

Length = Annotated[int, Field(ge=1, le=1_048_576)]

UNKNOWN_TOKEN = "[UNK]"


class Tokens(Transform, place=4):
    """Rows of token ids of one length: 0 is padding, what is longer is cut."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    usual: ClassVar[bool] = True
    makes: ClassVar[str | None] = task.TOKENS
    alone: ClassVar[bool] = True

    kind: Literal["tokens"] = "tokens"
    """The transform."""

    length: Length = 128
    """Tokens of a row."""

    method: Literal["bpe", "wordpiece", "bytes"] = "bpe"
    """`bpe`: byte-level pairs (lossless); `wordpiece`: parts of words, where an unknown character makes a word unknown;
    `bytes`: of UTF-8. The first two are fitted on the train split."""

    vocabulary: Annotated[int, Field(ge=258, le=1_000_000)] = 8192
    """Number of ids at most, with padding; fewer where the text has no more."""

    lowercase: bool = False
    """Whether letters become small ones before."""

    tokenizer_bytes: Annotated[int, Field(ge=1_000, le=10**10)] = 16_000_000
    """Bytes of train text at most on which the tokenizer is fitted, each text with 64 more; they are held in memory."""

    @model_validator(mode="after")
    def bytes_have_a_vocabulary(self) -> Tokens:
        for name in ("vocabulary", "tokenizer_bytes"):
            if self.method == "bytes" and getattr(self, name) != type(self).model_fields[name].default:
                raise Conflict(name, getattr(self, name), "is ignored by method bytes", "leave it out")
        return self

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return Known(_tokens(self, 257, {}, {}, {})) if self.method == "bytes" else TokensFitter(name, self)

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph | str:
        state = states[0]
        if state["method"] != "bytes":
            return "the package tokenizers divides its texts"
        if state["lowercase"]:
            return "Python makes its letters small"
        length = state["length"]

        def apply(texts: tf.Tensor) -> tf.Tensor:
            import tensorflow as tf

            cut = tf.strings.substr(texts, 0, length)
            ids = tf.cast(tf.io.decode_raw(cut, tf.uint8, fixed_length=length), tf.int32) + 1
            return tf.where(tf.sequence_mask(tf.strings.length(cut), length), ids, PADDING)

        return apply


class Words(Transform, place=4):
    """Ids of the words of a list, as they are: 0 padding, 1 an unknown or rare one, then the most frequent first."""

    reads: ClassVar[tuple[str, ...]] = ("words",)
    usual: ClassVar[bool] = True
    makes: ClassVar[str | None] = task.TOKENS
    alone: ClassVar[bool] = True
    no_graph: ClassVar[str] = "its words are lists of any length"

    kind: Literal["words"] = "words"
    """The transform."""

    length: Length = 128
    """Words of a row; what is longer is cut, and its words have no tags."""

    vocabulary: Annotated[int, Field(ge=3, le=1_000_000)] = 10_000
    """Number of ids at most; the words that are left over are rare ones."""

    min_count: Annotated[int, Field(ge=1)] = 2
    """A word that is there fewer times in the train split is a rare one. With 1 no word of it is rare, and a model
    never learns what to do with an unknown one."""

    lowercase: bool = False
    """Whether letters become small ones before."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return WordsFitter(name, self)


class HashWords(Transform, place=4):
    """Words of a text by a hash: how often each is there, or their ids in order; without a vocabulary."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    makes: ClassVar[str | None] = task.TOKENS
    alone: ClassVar[bool] = True
    no_graph: ClassVar[str] = "Python finds its words"

    kind: Literal["hash_words"] = "hash_words"
    """The transform."""

    buckets: Annotated[int, Field(ge=2, le=1_000_000)] = 4096
    """Number of hashes."""

    output: Literal["counts", "ids"] = "counts"
    """`counts`: float32 [buckets]; `ids`: [length], 0 is padding."""

    length: Length = 128
    """Words of a row, where the output is `ids`."""

    lowercase: bool = True
    """Whether letters become small ones before."""

    @model_validator(mode="after")
    def counts_have_no_length(self) -> HashWords:
        if self.output == "counts" and self.length != type(self).model_fields["length"].default:
            raise Conflict("length", self.length, "is ignored where the output is counts", "leave it out")
        return self

    def fitter(self, name: str, feature: Feature, folder: Path) -> Known:
        own: dict[str, Any] = {"dtype": "float32", "shape": [self.buckets]}
        if self.output == "ids":
            dtype = "uint16" if self.buckets < 2**16 else "uint32"
            own = {"dtype": dtype, "shape": [self.length], "vocabulary": self.buckets + 1, "padding": PADDING}
        settings = self.model_dump(include={"kind", "buckets", "output", "length", "lowercase"})
        return Known(Fitted({**settings, "dtype": own["dtype"], "shape": own["shape"]}, own))


class TokensFitter:
    """Learns from a sample of texts."""

    reads = True

    def __init__(self, name: str, config: Tokens) -> None:
        self._name, self._config = name, config
        self._sample = TextSample(config.tokenizer_bytes)

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from a list of texts."""
        self._sample.add(values, rows)

    def fitted(self) -> Fitted:
        """Return the transform; the tokenizer is a file of the library `tokenizers`."""
        from tokenizers import Tokenizer

        from tasks.snapshots import text

        config = self._config
        texts = [each.lower() if config.lowercase else each for each in self._sample.texts]
        # One id is the padding's.
        fit = text.fit if config.method == "bpe" else fit_wordpiece
        tokenizer = fit(texts, config.vocabulary)
        file = f"{own_array(self._name)}.tokenizer.json"
        size = Tokenizer.from_str(tokenizer).get_vocab_size() + 1
        return _tokens(config, size, {file: tokenizer.encode()}, {"file": file}, {"texts": len(texts)})


def fit_wordpiece(texts: Sequence[str], vocabulary: int) -> str:
    """Fit a WordPiece (Schuster and Nakajima, ICASSP 2012) of at most `vocabulary` - 1 tokens; return its JSON.

    Words are split at spaces and punctuation, as in BERT (Devlin et al., NAACL 2019). Up to half of the tokens are
    characters, the most frequent ones.

    The trainer of the library numbers the characters within words in the order of a table with a random seed, chooses
    among equally frequent characters by it, and breaks ties between pairs by these numbers: it is given all of them.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    words = pre_tokenizers.BertPreTokenizer()
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN_TOKEN))
    tokenizer.pre_tokenizer = words
    first, within = _characters(texts, words, (vocabulary - 1) // 2)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary - 1,
        special_tokens=[UNKNOWN_TOKEN, *within],
        initial_alphabet=first,
        limit_alphabet=len(first),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learned = Tokenizer(
        models.WordPiece(tokenizer.get_vocab(), unk_token=UNKNOWN_TOKEN)
    )  # where no character is special
    learned.pre_tokenizer = words
    learned.add_special_tokens([UNKNOWN_TOKEN])
    fitted: str = learned.to_str(pretty=True)
    return fitted


def _characters(texts: Sequence[str], words: Any, most: int) -> tuple[list[str], list[str]]:
    """Return the most frequent characters, and as tokens within words those of them that occur there, in order.

    There are `most` in all, or fewer. Equally frequent characters count in the order of their code points.
    """
    counts, within = Counter[str](), set[str]()
    for word, number in Counter(word for each in texts for word, _ in words.pre_tokenize_str(each)).items():
        within.update(word[1:])
        for character in word:
            counts[character] += number
    taken: list[str] = []
    for character in sorted(counts, key=lambda each: (-counts[each], each)):
        most -= 2 if character in within else 1
        if most < 0:
            break
        taken.append(character)
    return sorted(taken), [f"##{character}" for character in sorted(within.intersection(taken))]


def _tokens(
    config: Tokens, size: int, files: dict[str, bytes], more: dict[str, Any], summary: dict[str, float]
) -> Fitted:
    dtype = "uint16" if size <= 2**16 else "uint32"
    state = {
        "kind": config.kind,
        "method": config.method,
        "length": config.length,
        "lowercase": config.lowercase,
        "dtype": dtype,
        **more,
    }
    feature = {"dtype": dtype, "shape": [config.length], "vocabulary": size, "padding": PADDING}
    return Fitted(state, feature, None, {"size": size, **summary}, files)


class WordsFitter:
    """Counts words, also those that are cut."""

    reads = True

    def __init__(self, name: str, config: Words) -> None:
        self._name, self._config = name, config
        self._counts: Counter[str] = Counter()

    def add(self, values: Values, rows: Rows) -> None:
        """Count lists of words; raises `Failed` for too many different ones."""
        self._counts.update(plain(word, self._config.lowercase) for word in chain.from_iterable(values))
        refuse_too_many(self._name, len(self._counts), "make the column `ignore`, or divide its words")

    def fitted(self) -> Fitted:
        """Return the transform: ids by descending count, then by word."""
        config, counts = self._config, self._counts
        kept = most_frequent(counts, config.min_count, config.vocabulary - FIRST)
        size = FIRST + len(kept)
        dtype = "uint16" if size <= 2**16 else "uint32"
        rare = counts.total() - sum(counts[word] for word in kept)
        summary = {"size": size, "words": len(counts), "rare": rare / max(1, counts.total())}
        state = {"kind": "words", "values": kept, "length": config.length, "lowercase": config.lowercase}
        feature = {"dtype": dtype, "shape": [config.length], "vocabulary": size, "padding": PADDING, "unknown": UNKNOWN}
        return Fitted({**state, "dtype": dtype}, feature, None, summary)
