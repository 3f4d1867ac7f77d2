"""Fits `tokens`: a tokenizer on a sample of the train split's texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.config.transform import Tokens
from tasks.reader.tokens import PADDING
from tasks.reader.values import Values
from tasks.snapshots import text
from tasks.snapshots.transforms import Fitted, Known, Rows, own_array
from tasks.snapshots.transforms.graphs import Graph
from tasks.snapshots.transforms.samples import TextSample
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf

UNKNOWN = "[UNK]"


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

        config = self._config
        texts = [each.lower() if config.lowercase else each for each in self._sample.texts]
        # One id is the padding's.
        fit = text.fit if config.method == "bpe" else fit_wordpiece
        tokenizer = fit(texts, config.vocabulary)
        file = f"{own_array(self._name)}.tokenizer.json"
        size = Tokenizer.from_str(tokenizer).get_vocab_size() + 1
        return _fitted(config, size, {file: tokenizer.encode()}, {"file": file}, {"texts": len(texts)})


def fitter(name: str, feature: Feature, config: Tokens, folder: Path) -> TokensFitter | Known:
    """Return a fitter of texts; of bytes there is nothing to learn."""
    if config.method == "bytes":
        return Known(_fitted(config, 257, {}, {}, {}))
    return TokensFitter(name, config)


def fit_wordpiece(texts: Sequence[str], vocabulary: int) -> str:
    """Fit a WordPiece (Schuster and Nakajima, ICASSP 2012) of at most `vocabulary` - 1 tokens; return its JSON.

    Words are split at spaces and punctuation, as in BERT (Devlin et al., NAACL 2019). Up to half of the tokens are
    characters, the most frequent ones.

    The trainer of the library numbers the characters within words in the order of a table with a random seed, chooses
    among equally frequent characters by it, and breaks ties between pairs by these numbers: it is given all of them.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    words = pre_tokenizers.BertPreTokenizer()
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = words
    first, within = _characters(texts, words, (vocabulary - 1) // 2)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary - 1,
        special_tokens=[UNKNOWN, *within],
        initial_alphabet=first,
        limit_alphabet=len(first),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learned = Tokenizer(models.WordPiece(tokenizer.get_vocab(), unk_token=UNKNOWN))  # where no character is special
    learned.pre_tokenizer = words
    learned.add_special_tokens([UNKNOWN])
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


def _fitted(
    config: Tokens, size: int, files: dict[str, bytes], more: dict[str, Any], summary: dict[str, float]
) -> Fitted:
    dtype = "uint16" if size <= 2**16 else "uint32"
    state = {
        "kind": "tokens",
        "method": config.method,
        "length": config.length,
        "lowercase": config.lowercase,
        "dtype": dtype,
        **more,
    }
    feature = {"dtype": dtype, "shape": [config.length], "vocabulary": size, "padding": PADDING}
    return Fitted(state, feature, None, {"size": size, **summary}, files)


def graph(states: Sequence[dict[str, Any]]) -> Graph | str:
    """Return the transforms of texts to int32 [n, columns, length], or why they have none."""
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
