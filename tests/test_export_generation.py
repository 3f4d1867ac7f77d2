"""Generation with a cache of keys and values: what it says is what Keras says, recomputing all tokens at every step."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tasks.compression.changed import with_weights
from tasks.compression.methods import quantise
from tasks.compression.methods.low_rank import LowRank
from tasks.compression.methods.method import FineTune
from tasks.compression.methods.quantise import Float16
from tasks.exporting import FORMATS
from tasks.exporting.predict import CAPACITY, Cached, with_cache
from tasks.exporting.verify import decoded
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.decoding import DECODE, DOCUMENTS, KEYS, LOGITS, POSITION, PREFILL, function_of
from tasks.models.forward import inference_function

VOCABULARY, BOS = 300, 299
FEATURES = {"tokens": {"shape": [16], "dtype": "int32", "vocabulary": VOCABULARY, "bos": BOS}}
LAYERS: dict[str, int] = {"width": 16, "heads": 4, "kv_heads": 2, "hidden": 16}
CONFIG = TransformerModel(**LAYERS, task="language_model", layers=2, experts=3, document_mask=True)
"""Documents, heads that share keys and values, and experts."""
PLAIN = TransformerModel(**LAYERS, task="language_model", layers=1)


def model_of(config: TransformerModel) -> Any:
    """A model whose next token depends on those before it."""
    network, random = config.build(FEATURES, seed=1), np.random.default_rng(0)
    network.set_weights([random.normal(0.0, 0.5, weight.shape) for weight in network.get_weights()])
    return network


class Written:
    """A model, and its files in both formats with a cache."""

    def __init__(self, folder: Path, config: TransformerModel, network: Any = None) -> None:
        self.network = network or model_of(config)
        self.keras = inference_function(self.network)
        given = config.functions(FEATURES, self.network)
        self.paths: dict[str, Path] = {}
        for name in ("saved_model", "litert"):
            form = FORMATS[name]
            (folder / name).mkdir(parents=True)
            self.paths[name] = folder / name / form.file
            form.write(self.network, None, self.paths.get(form.parent or ""), self.paths[name], given)

    @cached_property
    def plain(self) -> Path:
        """Its LiteRT file without a cache."""
        path = self.paths["litert"].with_name("plain.tflite")
        FORMATS["litert"].write(self.network, None, self.paths["saved_model"], path)
        return path

    def load(self, name: str) -> Any:
        FORMATS[name].check(self.paths[name])
        return FORMATS[name](self.paths[name], 1)


@pytest.fixture(scope="module")
def written(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("generation"), CONFIG)


def generated(call: Any, prompt: list[int], count: int, noise: float) -> list[int]:
    """The most probable tokens, or with Gumbel noise on the logits samples."""
    tokens, random = list(prompt), np.random.default_rng(0)
    for _ in range(count):
        logits = call({"tokens": np.array([tokens], np.int32)})[0, -1]
        tokens.append(int((logits + noise * random.gumbel(size=logits.shape)).argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("name", ["saved_model", "litert"])
def test_tokens_are_those_of_keras_without_a_cache(written: Written, name: str) -> None:
    """Beyond the first capacity of the cache, and again from another prompt."""
    cached = with_cache(written.load(name))
    assert isinstance(cached, Cached)
    for prompt, count in (([BOS, 7, 11], CAPACITY + 6), ([BOS, 5], 4)):
        for noise in (0.0, 3.0):
            expected = generated(written.keras, prompt, count, noise)
            assert generated(cached, prompt, count, noise) == expected
        assert len(set(expected)) > count / 2, "a model that repeats a token would say the same without a cache"


@pytest.mark.parametrize("name", ["saved_model", "litert"])
def test_every_position_of_a_batch_is_keras_own(written: Written, name: str) -> None:
    """Also where a document begins in the middle, of a row alone."""
    tokens = np.random.default_rng(1).integers(0, BOS, (3, 14)).astype(np.int32)
    tokens[1, 9] = BOS
    np.testing.assert_allclose(decoded(written.load(name), tokens), written.keras({"tokens": tokens}), atol=2e-5)


def test_rows_of_different_lengths_go_on_together(written: Written) -> None:
    tokens = np.random.default_rng(2).integers(0, BOS, (2, 8)).astype(np.int32)
    lengths = np.array([5, 3], np.int32)
    model = written.load("saved_model")
    cache = model.run(PREFILL, {"tokens": np.where(np.arange(7) < lengths[:, None], tokens[:, :7], 0)})
    cache.pop(LOGITS)
    last = {"tokens": np.take_along_axis(tokens, lengths[:, None], 1), POSITION: lengths}
    logits = model.run(DECODE, {**last, **cache})[LOGITS]
    for row, length in enumerate(lengths):
        expected = written.keras({"tokens": tokens[row : row + 1, : length + 1]})[0, -1]
        np.testing.assert_allclose(logits[row, 0], expected, atol=2e-5)


def test_the_weights_are_in_the_files_once(written: Written) -> None:
    weights = sum(np.asarray(weight).nbytes for weight in written.network.weights)
    [data] = written.paths["saved_model"].rglob("variables.data*")
    assert data.stat().st_size < 1.2 * weights
    graph = 3 * (written.plain.stat().st_size - weights)  # three signatures
    assert written.paths["litert"].stat().st_size < weights + 1.5 * graph


def test_int8_says_nearly_the_same_with_one_table_for_all_signatures(written: Written) -> None:
    small = written.paths["litert"].with_name("int8.tflite")
    small.write_bytes(quantise.int8(written.paths["litert"].read_bytes()))
    FORMATS["litert"].check(small)
    model = FORMATS["litert"](small, 1)
    interface = model.interface
    assert {PREFILL, DECODE} <= set(interface["signatures"])
    tokens = np.random.default_rng(3).integers(0, BOS, (2, 9)).astype(np.int32)
    with_it, without = decoded(model, tokens), model({"tokens": tokens})
    assert np.abs(with_it - without).max() < 0.05 * np.abs(without).max()
    plain = small.with_name("plain_int8.tflite")
    plain.write_bytes(quantise.int8(written.plain.read_bytes()))
    assert tables(small) == tables(plain) >= 1


@pytest.mark.slow
def test_float16_has_a_cache_as_well(written: Written) -> None:
    half = written.paths["litert"].with_name("float16.tflite")
    given = SimpleNamespace(saved_model=written.paths["saved_model"])
    half.write_bytes(Float16().write(given))  # type: ignore[arg-type]
    model = FORMATS["litert"](half, 1)
    interface = model.interface
    assert {PREFILL, DECODE} <= set(interface["signatures"])
    tokens = np.random.default_rng(3).integers(0, BOS, (2, 9)).astype(np.int32)
    expected = written.keras({"tokens": tokens})
    assert np.abs(decoded(model, tokens) - expected).max() < 0.01 * np.abs(expected).max()
    assert tables(half, 2) == 1 and half.stat().st_size < written.paths["litert"].stat().st_size


@pytest.mark.slow
def test_a_model_with_factors_has_a_cache_as_well(tmp_path: Path) -> None:
    network, method = model_of(PLAIN), LowRank(rank=3, fine_tune=FineTune(steps=1))
    described, weights = method.prepare(PLAIN, network)
    network = with_weights(described.build(FEATURES, 1), weights)  # type: ignore[arg-type]
    made = Written(tmp_path, described, network)  # type: ignore[arg-type]
    tokens = np.random.default_rng(1).integers(0, BOS, (2, 9)).astype(np.int32)
    model = FORMATS["litert"](made.paths["litert"], 1)
    interface = model.interface
    assert {PREFILL, DECODE} <= set(interface["signatures"])
    np.testing.assert_allclose(decoded(model, tokens), made.keras({"tokens": tokens}), atol=1e-4)


def tables(path: Path, width: int = 1) -> int:
    """How many constants have the size of the table of tokens with so many bytes for each number."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(path.read_bytes(), 0))
    return sum(buffer.data is not None and len(buffer.data) == VOCABULARY * 16 * width for buffer in model.buffers)


def test_a_model_without_a_cache_is_used_as_it_is() -> None:
    def call(batch: Any) -> Any:
        return batch

    assert with_cache(call) is call


def test_a_graph_with_other_variables_than_the_model_is_refused() -> None:
    network = model_of(PLAIN)
    made = PLAIN.functions(FEATURES, network)
    assert {tensor.name for tensor in made[1].inputs} == {"tokens", POSITION, KEYS, "values"}
    assert DOCUMENTS in {tensor.name for tensor in CONFIG.functions(FEATURES, model_of(CONFIG))[1].inputs}
    with pytest.raises(ValueError, match="other has other variables than the model"):
        function_of("other", network.inputs, {LOGITS: network.layers[1].output}, network)
