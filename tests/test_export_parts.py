"""What an export promises of a file: the batches that it is compared in, what a check lets in, how it is measured."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Variant
from tasks.errors import Failed, Refused
from tasks.exporting import FORMATS, check_installed, latency, raw_rows, with_parents
from tasks.exporting.export import fault_of, in_order, keep_verified
from tasks.exporting.formats import onnx as of_onnx
from tasks.exporting.formats import safetensors, saved_model
from tasks.exporting.fresh_process import Verified, fresh_process
from tasks.exporting.latency import Energy
from tasks.exporting.predict import Cached
from tasks.exporting.prediction import Classification, predictions
from tasks.exporting.preprocess import arguments_of, read_transform
from tasks.exporting.raw_rows import Answers, is_table, rows_of
from tasks.exporting.verify import compared, decisions, decoded, own_outputs, shapes, shortened, unequal
from tasks.models.decoding import DECODE, LOGITS, PREFILL
from tasks.models.features import TOKENS
from tests.support.documents import added
from tests.support.homes import ROOT


def test_answers_are_compared_in_batches_of_all_three_and_one_and_at_other_lengths() -> None:
    assert shapes(np.zeros((7, 2))) == [(7, None), (3, None), (1, None)]
    assert shapes(np.zeros((7, 10, 2))) == [(7, None), (3, None), (1, None), (7, 5), (1, 1)]
    assert shapes(np.zeros((7, 10, 2)), ahead=True) == [(7, None), (3, None), (1, None)]
    assert [shortened(np.zeros((2, length))).shape[1] for length in (1, 2, 5)] == [1, 1, 2]


def test_a_model_that_looks_at_later_tokens_where_it_must_not_is_found() -> None:
    tokens = np.arange(12, dtype=np.int32).reshape(2, 6)
    expected = np.repeat(tokens[..., None], 3, axis=2).astype(np.float32)

    def ahead(batch: dict[str, Any]) -> Any:
        rows = batch[TOKENS]
        return np.repeat(rows[..., None], 3, axis=2).astype(np.float32) + (6 - rows.shape[1])

    found = compared(ahead, {}, {TOKENS: tokens}, {}, expected)
    assert found["max_abs_difference"] == 5.0, "of one token alone; of half of them it is 3"
    right = compared(lambda batch: ahead(batch) - (6 - batch[TOKENS].shape[1]), {}, {TOKENS: tokens}, {}, expected)
    assert right["max_abs_difference"] == 0.0


def test_a_file_that_is_right_in_one_batch_alone_is_found() -> None:
    inputs, outputs = {"x": np.arange(7.0)}, np.arange(7, dtype=np.float32)[:, None] - 3.0

    def run(batch: dict[str, Any]) -> Any:
        return (batch["x"][:, None] - 3.0).astype(np.float32) + np.float32(len(batch["x"]) == 3)

    found = compared(run, {}, inputs, {}, outputs)
    assert found["max_abs_difference"] == 1.0 and found["argmax_agreement"] < 1.0 and found["raw_differs"] == []
    exact = compared(lambda batch: (batch["x"][:, None] - 3.0).astype(np.float32), {}, inputs, {}, outputs)
    assert exact["max_abs_difference"] == 0.0 and exact["argmax_agreement"] == 1.0
    with pytest.raises(AssertionError, match="float64"):
        compared(lambda batch: batch["x"][:, None] - 3.0, {}, inputs, {}, outputs)
    with pytest.raises(AssertionError, match="not finite"):
        compared(lambda batch: np.full((len(batch["x"]), 1), np.nan, np.float32), {}, inputs, {}, outputs)


def test_what_a_graph_makes_is_compared_bit_for_bit_and_a_decision_is_a_class_or_a_sign() -> None:
    expected = {"a": np.zeros(2, np.float32), "b": np.ones(2, np.float32)}
    assert unequal({"a": -expected["a"], "b": expected["b"]}, expected) == ["a"]
    assert unequal({"a": expected["a"].astype(np.float64), "b": expected["b"]}, expected) == ["a"]
    assert decisions(np.array([[0.1, 0.9]])).tolist() == [1] and decisions(np.array([[-0.1]])).tolist() == [[False]]
    assert own_outputs("int8", ["outputs", "outputs/int8"]) == "outputs/int8"
    assert own_outputs("other", ["outputs", "outputs/int8"]) == "outputs"


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({}, None),
        ({"max_abs_difference": 0.1}, None),
        ({"max_abs_difference": 0.11}, "over the tolerance"),
        ({"max_abs_difference": float("nan")}, "over the tolerance"),
        ({"raw_differs": ["age"]}, "makes another age of raw columns"),
        ({"weights_sha256": "other"}, "weights are not those of the model"),
        ({"weights_sha256": "w"}, None),
    ],
)
def test_a_variant_passes_that_loads_answers_and_has_the_models_weights(
    figures: dict[str, Any], says: str | None
) -> None:
    whole: dict[str, Any] = {"max_abs_difference": 0.0, "raw_differs": [], **figures}
    found = fault_of(Verified(whole), 0.1, "w")
    assert found is None if says is None else says in str(found)
    assert fault_of(Verified(whole, fault="it does not load"), 0.1, "w") == "it does not load"


def test_a_variant_that_fails_leaves_no_file_and_the_saved_model_must_not_fail() -> None:
    dropped: list[str] = []
    staging = SimpleNamespace(pieces=lambda under: [f"{under}x"], drop=dropped.append)
    bench: Any = SimpleNamespace(staging=staging)
    good, bad = Verified({"max_abs_difference": 0.0, "raw_differs": []}), Verified(fault="it does not load")
    listed = [{"name": name, "tolerance": 0.1} for name in ("saved_model", "int8")]
    kept = keep_verified(listed, {"saved_model": good, "int8": bad}, "w", bench)
    assert [each["name"] for each in kept] == ["saved_model"] and dropped == ["int8/x"]
    with pytest.raises(Failed, match="variant saved_model: it does not load"):
        keep_verified(listed, {"saved_model": bad, "int8": good}, "w", bench)


def test_float_variants_come_first_in_the_order_of_the_formats() -> None:
    names = ["int8", "onnx", "float16", "litert", "saved_model"]
    ordered = in_order([Variant(name, Path(), name) for name in names])
    assert [each.name for each in ordered] == ["saved_model", "litert", "onnx", "float16", "int8"]
    assert with_parents("onnx")[0] == "saved_model" and with_parents("onnx")[-1] == "onnx"
    check_installed(["saved_model", "litert"])


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_asks_for_each_package_of_its_own_and_of_what_it_is_made_from(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: dict[str, str | None] = {}  # the extra of a package
    for form in map(FORMATS.__getitem__, with_parents(name)):
        needed = {**dict.fromkeys(form.libraries, form.extra), **needed}
    assert set(FORMATS[name].libraries) <= set(needed)
    all_packages = {package for form in FORMATS.values() for package in form.libraries}
    for missing in all_packages:

        def version(package: str, missing: str = missing) -> str:
            if package == missing:
                raise PackageNotFoundError(package)
            return "1"

        monkeypatch.setattr("tasks.exporting.version", version)
        if missing not in needed:
            check_installed([name])
            continue
        with pytest.raises(Refused) as refused:
            check_installed([name])
        assert (refused.value.field, refused.value.saw) == ("export.formats", name)
        assert f" {missing}," in refused.value.rule
        if needed[missing] is not None:  # or it is one that Millrace cannot be installed without
            assert f"millrace[{needed[missing]}]" in refused.value.remedy


@pytest.mark.parametrize(
    ("script", "fault", "error"),
    [
        (
            'import sys; sys.stdin.read(); print(\'noise\'); print(\'{"verified": {"a": 1}, "measured": {}}\')',
            None,
            None,
        ),
        ("raise SystemExit('no such operator')", "no such operator", None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None, "was ended by SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "exit code -11", None),
        ("import time; time.sleep(60)", None, "no answer in 1 s"),
    ],
)
def test_a_process_that_was_killed_says_nothing_of_the_variant(
    script: str, fault: str | None, error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of its own is the variant's fault; a kill or a slow machine is not: another try may succeed."""
    from tasks.exporting import fresh_process as module

    (tmp_path / "verify.py").write_text(script)
    monkeypatch.setattr(module, "verify", SimpleNamespace(__file__=str(tmp_path / "verify.py")))
    monkeypatch.setattr(module, "TIMEOUT", 1.0 if "sleep" in script else 30.0)
    with fresh_process(tmp_path / "int8", FORMATS["litert"], tmp_path) as verify_variant:
        if error is not None:
            with pytest.raises(Failed, match=error):
                verify_variant()
            return
        found = verify_variant()
    assert found.fault is None if fault is None else fault in str(found.fault)
    assert found.figures == ({"a": 1} if fault is None else {})


def test_latency_is_that_of_rounds_in_turns_relative_to_the_float_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, order = [0.0], list[str]()
    monkeypatch.setattr(latency.time, "perf_counter", lambda: now[0])  # type: ignore[attr-defined]

    def runner(name: str, seconds: float) -> Any:
        def run(batch: Any) -> None:
            order.append(name)
            now[0] += seconds

        return run

    runners = {
        "litert": runner("litert", 0.01),
        "int8": runner("int8", 0.004),
        latency.FLOAT_AGAIN: runner("again", 0.0105),
    }
    energy: Any = type(
        "None_", (), {"__bool__": lambda self: False, "read": lambda self: [], "joules": lambda *_: 0.0}
    )()
    made = latency.compare(runners, {}, energy)
    assert made["variants"]["int8"]["ratio"] == pytest.approx(0.4) and made["again"] == pytest.approx(1.05)
    assert made["conclusive"] and set(made["variants"]) == {"litert", "int8"}
    assert made["variants"]["int8"]["p50"] == pytest.approx(4.0), "milliseconds"
    firsts = [name for before, name in zip(["", *order], order, strict=False) if before != name]
    assert len(set(firsts[-9::3])) > 1, "each round begins with another one"
    runners[latency.FLOAT_AGAIN] = runner("again", 0.0112)
    assert not latency.compare(runners, {}, energy)["conclusive"]


def test_a_batch_repeats_few_examples_and_has_few_tokens() -> None:
    class Rows(dict[str, Any]):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, rows: Any) -> Any:
            return {TOKENS: np.arange(3)[rows][:, None] * np.ones((1, 1000), np.int32)}

    rows: Any = Rows()
    made = latency.batch_of(rows, {TOKENS: {}}, 32)[TOKENS]
    assert made.shape == (32, latency.MAX_TOKENS // 32) and made[:4, 0].tolist() == [0, 1, 2, 0]
    assert latency.batch_of(rows, {TOKENS: {}}, 1)[TOKENS].shape == (1, latency.MAX_TOKENS)


def test_only_whole_packages_count_energy(tmp_path: Path) -> None:
    for name, most in (("intel-rapl:0", 999), ("intel-rapl:0:0", 999), ("intel-rapl:1", 999)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text("5")
        (tmp_path / name / "max_energy_range_uj").write_text(str(most))
    (tmp_path / "intel-rapl:2").mkdir()  # one that only root can read
    energy = Energy(tmp_path)
    assert energy and energy.read() == [5, 5]
    assert energy.joules([5, 990], [105, 10]) == pytest.approx((100 + 20) / 1e6)
    assert not Energy(tmp_path / "none")


def test_the_first_half_is_computed_at_once_and_each_other_token_with_what_is_kept() -> None:
    class Model:
        """Its logits are its tokens; it keeps values [n, positions, 2] and rows [n, positions]."""

        def __init__(self) -> None:
            self.called: list[tuple[Any, ...]] = []

        def run(self, signature: str, batch: dict[str, Any]) -> dict[str, Any]:
            tokens = batch[TOKENS]
            kept = {name: batch[name] for name in ("values", "rows") if name in batch}
            self.called.append((signature, tokens.tolist(), *(each.shape for each in kept.values())))
            if signature == PREFILL:
                kept = {"values": np.ones((*tokens.shape, 2)), "rows": np.ones(tokens.shape)}
            else:
                assert batch["position"].tolist() == [2] * len(tokens)
                assert kept["rows"][0].tolist() == [1.0, 1.0, 0.0], "room behind what is kept"
            return {LOGITS: tokens[..., None].astype(np.float32), **kept}

    model, tokens = Model(), np.array([[7, 8, 9], [4, 5, 6]], np.int32)
    assert decoded(model, tokens)[..., 0].tolist() == tokens.tolist()
    assert model.called == [(PREFILL, [[7, 8], [4, 5]]), (DECODE, [[9], [6]], (2, 3, 2), (2, 3))]
    one = Model()
    assert decoded(one, tokens[:, :1])[..., 0].tolist() == [[7], [4]] and len(one.called) == 1


def test_a_saved_model_is_the_same_bytes_whatever_process_wrote_it() -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    def written(first: int, order: int, capture: str, threads: bytes, second: str = "Mul") -> bytes:
        """Two functions, of which the first calls the second; each reads a capture, and has arguments of its own."""
        proto = SavedModel()
        meta = proto.meta_graphs.add()
        names = [f"__inference_outer_{first}", f"__inference_inner_{first + 7}"]
        made = []
        for name, operation in zip(names, ("PartitionedCall", second), strict=True):
            function = type(meta.graph_def.library.function.add())()
            function.signature.name = name
            node = function.node_def.add(name="node", op=operation)
            node.attr["config_proto"].s = threads
            if operation == "PartitionedCall":
                node.attr["f"].func.name = names[1]
                function.control_ret[names[1]] = "node"
            for number, said in enumerate((capture, "an input", capture)):
                function.arg_attr[number].attr["_user_specified_name"].s = said.encode()
            made.append(function)
        del meta.graph_def.library.function[:]
        meta.graph_def.library.function.extend(made[::order])
        call = meta.graph_def.node.add(name="call", op="StatefulPartitionedCall")
        call.attr["f"].func.name = names[0]
        call.attr["config_proto"].s = threads
        meta.object_graph_def.concrete_functions[names[0]].bound_inputs.append(1)
        meta.object_graph_def.nodes.add().function.concrete_functions.extend(names)
        return bytes(proto.SerializeToString())

    one = saved_model.canonical(written(3, 1, "1402", b"8 threads"))
    assert one == saved_model.canonical(written(95, -1, "77", b"2 threads"))
    assert one != saved_model.canonical(written(3, 1, "1402", b"8 threads", second="Add"))
    [meta] = SavedModel.FromString(one).meta_graphs
    functions = meta.graph_def.library.function
    assert [function.signature.name for function in functions] == ["__inference_inner_1", "__inference_outer_0"]
    assert {function.node_def[0].attr["f"].func.name for function in functions} == {"", "__inference_inner_1"}
    for function in functions:
        assert [function.arg_attr[number].attr["_user_specified_name"].s for number in range(3)] == [
            b"",
            b"an input",
            b"",
        ]
    assert dict(functions[1].control_ret) == {"__inference_inner_1": "node"}
    assert meta.graph_def.node[0].attr["f"].func.name == "__inference_outer_0"
    assert list(meta.object_graph_def.concrete_functions) == ["__inference_outer_0"]
    assert list(meta.object_graph_def.concrete_functions["__inference_outer_0"].bound_inputs) == [1]
    assert list(meta.object_graph_def.nodes[0].function.concrete_functions) == [
        "__inference_outer_0",
        "__inference_inner_1",
    ]


def test_an_onnx_model_is_the_same_whatever_names_and_order_its_converter_chose() -> None:
    onnx = pytest.importorskip("onnx")
    helper, array = onnx.helper, onnx.numpy_helper.from_array

    def written(prefix: str, order: int, second: str = "Sub", docs: str = "") -> Any:
        """`y = (x @ w) - c`, and a branch `z = if x.any: x, else: x + c`, with a weight that nothing reads."""
        values = [helper.make_tensor_value_info(name, 1, ["unk__7", 2]) for name in ("x", "y", "z")]
        weights = [
            array(np.eye(2, dtype=np.float32), f"{prefix}w"),
            array(np.ones(2, np.float32), f"{prefix}c"),
            array(np.zeros(3, np.float32), f"{prefix}unread"),
        ]

        def branch(*nodes: Any) -> Any:
            result = helper.make_tensor_value_info(f"{prefix}r", 1, None)
            return helper.make_graph(list(nodes), "branch", [], [result], doc_string=docs)

        yes = branch(helper.make_node("Identity", ["x"], [f"{prefix}r"], name=f"{prefix}i"))
        no = branch(helper.make_node("Add", ["x", f"{prefix}c"], [f"{prefix}r"], name=f"{prefix}a"))
        nodes = [
            helper.make_node("MatMul", ["x", f"{prefix}w"], [f"{prefix}m"], name=f"{prefix}n0", doc_string=docs),
            helper.make_node(second, [f"{prefix}m", f"{prefix}c"], ["y"], name=f"{prefix}n1"),
            helper.make_node("ReduceMax", ["x"], [f"{prefix}t"], name=f"{prefix}n2", keepdims=0),
            helper.make_node("Cast", [f"{prefix}t"], [f"{prefix}any"], name=f"{prefix}n3", to=9),
            helper.make_node("If", [f"{prefix}any"], ["z"], name=f"{prefix}n4", then_branch=yes, else_branch=no),
        ]
        inner = [helper.make_tensor_value_info(f"{prefix}m", 1, None)]
        graph = helper.make_graph(nodes[::order], "g", values[:1], values[1:], weights[::order], docs, inner)
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.doc_string = docs
        versions = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
        made = helper.make_model(graph, opset_imports=versions[::order], doc_string=docs)
        for place in (made, made.graph):
            place.metadata_props.add(key="made", value=f"{prefix} {docs}")
        return made

    one = of_onnx.canonical(written("a/", 1))
    assert one == of_onnx.canonical(written("model_1/long/", -1, docs="from Python"))
    assert one != of_onnx.canonical(written("a/", 1, second="Div"))
    onnx.checker.check_model(one)
    text = onnx.printer.to_text(one)
    assert "a/" not in text and "from Python" not in text and "unread" not in text
    graph = one.graph
    sizes = [
        [size.dim_param or size.dim_value for size in each.type.tensor_type.shape.dim]
        for each in (*graph.input, *graph.output)
    ]
    assert sizes == [["batch", 2]] * 3 and not graph.value_info
    assert [node.op_type for node in graph.node] == ["MatMul", "Sub", "ReduceMax", "Cast", "If"]
    assert len(graph.initializer) == 2, "that nothing reads is left out"


def test_a_cache_is_of_the_tokens_that_it_was_made_of() -> None:
    called: list[tuple[str, int]] = []

    class Model:
        def run(self, signature: str, batch: dict[str, Any]) -> dict[str, Any]:
            called.append((signature, batch[TOKENS].shape[1]))
            return {LOGITS: np.zeros((1, 1, 3)), "keys": np.zeros((1, 64, 4))}

    cached = Cached(Model())
    for tokens in ([1, 2], [1, 2, 3], [1, 2, 4, 5], [2, 4, 5], [2, 4, 5, 6]):
        cached({TOKENS: np.array([tokens], np.int32)})
    assert called == [(PREFILL, 2), (DECODE, 1), (PREFILL, 4), (PREFILL, 3), (DECODE, 1)]


def test_the_top_classes_are_the_most_probable_and_tags_are_those_of_words() -> None:
    transform = {"classes": ["a", "b", "c", "d"], "task": "classification"}
    top = Classification.row(np.array([0.0, 3.0, 1.0, 3.0]), transform)["top"]
    assert [each["class"] for each in top] == ["b", "d", "c"] and sum(each["confidence"] for each in top) < 1
    logits = np.zeros((2, 3, 4))
    logits[0, 0, 2] = logits[0, 1, 1] = logits[1, 0, 3] = 1.0
    ids = np.array([[5, 6, 0], [7, 0, 0]])
    inputs = {"other": np.zeros((2, 9)), "words": ids}
    made = predictions(logits, {**transform, "task": "tagging"}, inputs)
    assert made == [{"tags": ["c", "b"]}, {"tags": ["d"]}]


@pytest.mark.parametrize(("threshold", "first"), [(0.5, "no"), (0.49, "yes"), (0.51, "no")])
def test_a_probability_is_predicted_above_its_threshold_and_not_at_it(threshold: float, first: str) -> None:
    transform = {"classes": ["no", "yes"], "thresholds": {"yes": threshold}, "temperature": 3.0}
    made = Classification.row(np.array([2.0, 2.0]), transform)
    assert made["class"] == first == made["top"][0]["class"] and made["confidence"] == 0.5
    labels = {"targets": ["a", "b"], "task": "multilabel", "thresholds": {"a": threshold, "b": 0.5}}
    [row] = predictions(np.array([[0.0, 0.1]]), labels, {})
    assert row["predicted"] == [*(["a"] if threshold < 0.5 else []), "b"]
    [plain] = predictions(np.array([[0.0, 0.1]]), {**labels, "thresholds": None}, {})
    assert set(plain) == {"labels"} and plain["labels"] == row["labels"]


def test_columns_have_arguments_that_no_other_has() -> None:
    names = arguments_of(["fixed acidity", "fixed_acidity", "Fixed-Acidity", "class", "self", "1st", "ü"])
    assert len({name.lower() for name in names.values()}) == 7
    assert (names["fixed acidity"], names["class"], names["1st"]) == ("fixed_acidity", "column_class", "column_1st")
    assert all(name.isidentifier() for name in names.values())


def file_of(header: dict[str, Any], tensors: bytes = b"\0" * 8) -> bytes:
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + tensors


def test_a_safetensors_file_is_the_same_whatever_the_order_of_its_header(tmp_path: Path) -> None:
    rows = {
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
    }
    meta = {safetensors.ARCHITECTURE: "{}", "keras_version": "3"}
    first = safetensors.canonical(file_of({"__metadata__": meta, **rows}))
    second = safetensors.canonical(
        file_of({**dict(reversed(rows.items())), "__metadata__": dict(reversed(meta.items()))})
    )
    assert first == second and (len(first) - 8) % 8 == 0 and first.endswith(b"\0" * 8)
    path = tmp_path / "model.safetensors"
    path.write_bytes(first)
    safetensors.Safetensors.check(path)
    for broken in (first[:-4], first[:20], safetensors.canonical(file_of({"__metadata__": {}, **rows}))):
        path.write_bytes(broken)
        with pytest.raises(Failed, match="use an export from a source that you trust"):
            safetensors.Safetensors.check(path)


def test_rows_are_read_in_batches_and_a_field_that_some_lack_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.exporting.raw_rows.BATCH", 2)
    path = tmp_path / "rows.jsonl"
    path.write_text('\ufeff{"a": 1, "b": {"c": 2}}\n\n{"a": 3}\n{"a": 4}\n', encoding="utf-8")
    made = list(rows_of(path, {"a": "number", "b.c": "number"}, None))
    assert made == [[{"a": 1, "b.c": 2}, {"a": 3, "b.c": None}], [{"a": 4}]]
    path.write_text('{"a": 1}\n[2]\n')
    with pytest.raises(Failed, match="line 2: list; a line is a JSON object"):
        list(rows_of(path, {"a": "number"}, None))
    names = ("a.csv", "a.csv.gz", "a.TSV", "a.parquet", "a.parquet.gz", "a.gz", "a.png")
    assert [is_table(Path(name)) for name in names] == [True, True, True, True, False, False, False]


def test_a_csv_row_of_another_length_is_named_and_the_delimiter_is_that_with_all_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b,c\n1;2,3\n")
    assert list(raw_rows.csv_rows(path, ["a", "b,c"], None)) == [{"a": "1", "b,c": "2,3"}]
    assert list(raw_rows.csv_rows(path, ["a;b", "c"], None)) == [{"a;b": "1;2", "c": "3"}]
    path.write_text("a,b\n1,2\n\n3\n")
    with pytest.raises(Failed, match="row of line 4: 1 cells; a row has 2: a, b"):
        list(raw_rows.csv_rows(path, ["a", "b"], None))
    path.write_text("a,b,a\n1,2,3\n")
    with pytest.raises(Failed, match="several columns a"):
        list(raw_rows.csv_rows(path, ["a", "b"], None))
    assert list(raw_rows.csv_rows(path, ["b"], None))
    form = {**raw_rows.PLAIN, "delimiter": ",", "header": ["x", "y", "label"], "outputs": ["label"]}
    for content, expected in (("1,2\n", {"x": "1", "y": "2"}), ("1,2,c\n", {"x": "1", "y": "2", "label": "c"})):
        path.write_text(content)
        assert list(raw_rows.csv_rows(path, ["x", "y"], form)) == [expected]
    path.write_text("1,2\n\n1\n")
    with pytest.raises(Failed, match="row of line 3: 1 cells"):
        list(raw_rows.csv_rows(path, ["x", "y"], form))
    path.write_text("1\n")
    with pytest.raises(Failed, match="or those without label"):
        list(raw_rows.csv_rows(path, ["x", "y"], form))
    path.write_bytes(b'a,b\r\n"x\r\ny\nz",1\r\n')
    assert list(raw_rows.csv_rows(path, ["a"], None)) == [{"a": "x\r\ny\nz", "b": "1"}], (
        "lines of a cell end as they did"
    )
    path.write_bytes("a,b\nü,1\n".encode())
    with pytest.raises(Failed, match="rows are in latin-1, as those of the training were"):
        list(raw_rows.csv_rows(path, ["a"], {**raw_rows.PLAIN, "delimiter": ",", "encoding": "latin-1"}))


def test_answers_have_the_columns_of_the_first_row(tmp_path: Path) -> None:
    for name in ("out.csv", "out.jsonl"):
        answers = Answers(tmp_path / name)
        answers.write([{"a": 1, "image": b"123", "tags": ["x", "ü"]}, {"a": 2, "more": 3}])
        answers.close()
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines() == [
        "a,image,tags",
        '1,3 bytes,"[""x"", ""ü""]"',
        "2,,",
    ]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [{"a": 1, "image": "3 bytes", "tags": ["x", "ü"]}, {"a": 2, "more": 3}]


def test_an_export_says_its_task_and_what_was_fitted(tmp_path: Path) -> None:
    folder = tmp_path / "transform"
    folder.mkdir()
    with pytest.raises(Failed, match="not an export"):
        read_transform(tmp_path)
    (folder / "transform.json").write_text('{"kind": "table", "columns": []}')
    assert read_transform(tmp_path)["task"] == "classification"
    (folder / "task.json").write_text('{"task": "regression", "targets": ["x"]}')
    (folder / "decision.json").write_text('{"temperature": 2.0}')
    made = read_transform(tmp_path)
    assert (made["task"], made["targets"], made["temperature"]) == ("regression", ["x"], 2.0)
    (folder / "transform.json").write_text("{torn")
    with pytest.raises(Failed, match="not JSON"):
        read_transform(tmp_path)


TOY = added("tasks/exporting/formats/toy.py")

WITH_TOY = """
import json, sys
from pathlib import Path
from pydantic import ValidationError
from tasks.config.compose import Config
from tasks.config.reference import page

heavy = sorted({"tensorflow", "keras"} & sys.modules.keys())
import numpy as np
from tasks.exporting import FORMATS, open_variant
from tasks.exporting.export import in_order
from tasks.exporting.fresh_process import fresh_process
from tasks.artifacts import Variant

try:
    Config.model_validate({"name": "a", "export": {"formats": ["no"]}})
except ValidationError as error:
    refused = str(error)
root = Path(sys.argv[1]) / "export"
(root / "toy").mkdir(parents=True)
FORMATS["toy"].write(3, None, None, root / "toy/model.txt")
(root / "toy/variant.json").write_text(json.dumps({"format": "toy", "file": "model.txt"}))
x = np.arange(8, dtype="f4").reshape(4, 2)
np.savez(root / "golden.npz", **{"inputs/x": x, "outputs": 3 * x})
with fresh_process(root / "toy", FORMATS["toy"], root) as verify:
    found = verify()
ordered = in_order([Variant(name, Path(), name) for name in ("int8", "toy", "keras")])
print(json.dumps({
    "schema": "toy" in json.dumps(Config.model_json_schema()["$defs"]["ExportConfig"]["properties"]["formats"]),
    "page": [line for line in page().splitlines() if "`toy` (text)" in line and "`toys`" in line],
    "refused": "'toy'" in refused, "heavy": heavy, "order": [each.name for each in ordered],
    "run": open_variant(root / "toy", "toy")({"x": x}).tolist() == (3 * x).tolist(),
    "fault": found.fault, "difference": found.figures["max_abs_difference"],
}))
"""


def test_another_format_is_one_class_and_no_other_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tasks/exporting/formats/toy.py").write_text(TOY)
    command = [sys.executable, "-c", WITH_TOY, str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["schema"] and len(found["page"]) == 1 and found["refused"] and found["heavy"] == []
    assert found["order"] == ["keras", "toy", "int8"] and found["run"]
    assert (found["fault"], found["difference"]) == (None, 0.0)
