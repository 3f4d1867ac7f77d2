"""Files of an export that somebody else may have written: refused before a runtime reads them, with name and remedy."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tasks.errors import Failed
from tasks.exporting import FORMATS, float_model
from tasks.exporting.checks import SAVER
from tasks.exporting.predict import predict
from tasks.models.architectures.mlp import MlpModel

FEATURES = {
    "numbers": {"dtype": "float32", "shape": [3]},
    "label": {"dtype": "int64", "shape": [], "classes": ["no", "yes"]},
}


@pytest.fixture(scope="module")
def good(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file in every format, as written here."""
    root, paths = tmp_path_factory.mktemp("good"), {}
    network = MlpModel(task="classification", units=(4,)).build(FEATURES, seed=1)
    for name in FORMATS:
        form = FORMATS[name]
        (root / name).mkdir()
        paths[name] = root / name / form.file
        form.write(network, None, paths.get(form.parent or ""), paths[name])
    return paths


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_here_is_accepted(good: dict[str, Path], name: str) -> None:
    FORMATS[name].check(good[name])


def read_file(tf: Any, secret: Path, target: Path) -> Any:
    return tf.strings.length(tf.io.read_file(str(secret)))


def write_file(tf: Any, secret: Path, target: Path) -> Any:
    with tf.control_dependencies([tf.io.write_file(str(target), "owned")]):
        return tf.constant(0)


def print_to_file(tf: Any, secret: Path, target: Path) -> Any:
    with tf.control_dependencies([tf.print("owned", output_stream=f"file://{target}")]):
        return tf.constant(0)


def list_files(tf: Any, secret: Path, target: Path) -> Any:
    return tf.shape(tf.io.matching_files(f"{secret.parent}/*"))[0]


def python_function(tf: Any, secret: Path, target: Path) -> Any:
    return tf.numpy_function(lambda: target.write_text("owned"), [], tf.int64)


def debug_to_file(tf: Any, secret: Path, target: Path) -> Any:
    return tf.raw_ops.DebugIdentity(input=tf.constant(0), debug_urls=[f"file://{target}"])


def cache_to_file(tf: Any, secret: Path, target: Path) -> Any:
    return tf.data.Dataset.range(3).cache(str(target)).reduce(np.int64(0), lambda old, new: old + new)


def vocabulary_file(tf: Any, secret: Path, target: Path) -> Any:
    file = tf.constant(str(secret))
    made = tf.raw_ops.GenerateVocabRemapping(
        new_vocab_file=file, old_vocab_file=file, new_vocab_offset=0, num_new_vocab=1, old_vocab_size=-1
    )
    return made.num_present


def save_to_file(tf: Any, secret: Path, target: Path) -> Any:
    saved = tf.raw_ops.SaveV2(prefix=str(target), tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(0)])
    with tf.control_dependencies([saved]):
        return tf.constant(0)


def restore_a_file(tf: Any, secret: Path, target: Path) -> Any:
    [found] = tf.raw_ops.RestoreV2(prefix=str(secret), tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.int32])
    return found


def end_the_process(tf: Any, secret: Path, target: Path) -> Any:
    with tf.control_dependencies([tf.raw_ops.Abort(error_msg="owned", exit_without_error=True)]):
        return tf.constant(0)


HOSTILE: dict[str, Callable[[Any, Path, Path], Any]] = {
    "ReadFile": read_file,
    "WriteFile": write_file,
    "PrintV2": print_to_file,
    "MatchingFiles": list_files,
    "PyFunc": python_function,
    "DebugIdentity": debug_to_file,
    "Dataset": cache_to_file,
    "GenerateVocabRemapping": vocabulary_file,
    "SaveV2": save_to_file,
    "RestoreV2": restore_a_file,
    "Abort": end_the_process,
}
"""What each hostile graph does, by the operation that does it."""


@pytest.mark.parametrize("operation", HOSTILE)
def test_a_graph_that_does_more_than_compute_is_refused(tf: Any, tmp_path: Path, operation: str) -> None:
    """In the signature that a prediction calls; loading alone runs no such graph, and nothing is loaded."""
    secret, target = tmp_path / "secret", tmp_path / "target"
    secret.write_text("secret")
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="numbers")])
    def serve(numbers: Any) -> dict[str, Any]:
        return {"logits": numbers + tf.cast(HOSTILE[operation](tf, secret, target), tf.float32)}

    module.serve = serve
    folder = tmp_path / "export/saved_model/saved_model"
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    (folder / "fingerprint.pb").unlink()
    with pytest.raises(Failed, match=rf"the operation \w*{operation}.*compute, and read or write nothing else; use an"):
        float_model(tmp_path / "export")
    assert not target.exists()


def test_millrace_predict_refuses_a_folder_with_such_a_graph(tf: Any, tmp_path: Path) -> None:
    module = tf.Module()
    module.serve = tf.function(
        lambda numbers: {"logits": numbers * tf.cast(tf.strings.length(tf.io.read_file("/etc/passwd")), tf.float32)},
        [tf.TensorSpec([None, 3], tf.float32, name="numbers")],
    )
    folder = tmp_path / "export/saved_model/saved_model"
    tf.saved_model.save(module, str(folder), {"serving_default": module.serve.get_concrete_function()})
    (folder / "fingerprint.pb").unlink()
    (tmp_path / "export/transform").mkdir()
    (tmp_path / "export/transform/transform.json").write_text(json.dumps({"kind": "table"}))
    with pytest.raises(Failed, match="the operation ReadFile"):
        predict(tmp_path / "export", [])


def changed(good: dict[str, Path], folder: Path, change: Callable[[Any], None]) -> Path:
    """A copy of the SavedModel whose proto is changed."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    copied = Path(shutil.copytree(good["saved_model"], folder / "saved_model"))
    proto = SavedModel.FromString((copied / "saved_model.pb").read_bytes())
    change(proto.meta_graphs[0])
    (copied / "saved_model.pb").write_bytes(proto.SerializeToString())
    return copied


@pytest.mark.parametrize("name", ["more", "of the saver"])
def test_the_savers_functions_may_not_be_called_by_others(good: dict[str, Path], tmp_path: Path, name: str) -> None:
    """They hold SaveV2, and take the name of the file as an argument; the name of a caller proves nothing."""

    def call(meta: Any) -> None:
        caller = name if name == "more" else meta.saver_def.save_tensor_name.partition(":")[0]
        [saver] = [
            each.signature.name for each in meta.graph_def.library.function if "traced_save" in each.signature.name
        ]
        others = [each for each in meta.graph_def.library.function if "traced" not in each.signature.name]
        others[0].node_def.add(name=caller, op="StatefulPartitionedCall").attr["f"].func.name = saver

    with pytest.raises(
        Failed, match="the function __inference__traced_save_.*, which writes or reads files, is called"
    ):
        FORMATS["saved_model"].check(changed(good, tmp_path, call))


def called_by_an_operation(meta: Any, saver: str) -> None:
    meta.graph_def.node.add(name="more", op="PartitionedCall").attr["f"].func.name = saver


def called_by_one_of_several(meta: Any, saver: str) -> None:
    branches = meta.graph_def.node.add(name="more", op="StatelessCase").attr["branches"].list.func
    branches.add(name=of_the_model(meta))
    branches.add(name=saver)


def called_within_a_function(meta: Any, saver: str) -> None:
    [function] = [each for each in meta.graph_def.library.function if each.signature.name == of_the_model(meta)]
    function.node_def.add(name="more", op="StatefulPartitionedCall").attr["f"].func.name = saver


def given_to_a_function(meta: Any, saver: str) -> None:
    """Which may call what it is given."""
    called = meta.graph_def.node.add(name="more", op="PartitionedCall").attr["f"].func
    called.name = of_the_model(meta)
    called.attr["g"].func.name = saver


def an_operation_of_its_name(meta: Any, saver: str) -> None:
    meta.graph_def.node.add(name="more", op=saver)


def of_the_object_graph(meta: Any, saver: str) -> None:
    meta.object_graph_def.concrete_functions[saver].bound_inputs.extend([])


def of_a_signature(meta: Any, saver: str) -> None:
    """TensorFlow takes the names of the nodes, and makes up an entry of the object graph where there is none."""
    [node, *_] = [each for each in meta.object_graph_def.nodes if each.WhichOneof("kind") == "bare_concrete_function"]
    node.bare_concrete_function.concrete_function_name = saver


def of_a_method(meta: Any, saver: str) -> None:
    meta.object_graph_def.nodes.add().function.concrete_functions.append(saver)


def of_a_captured_value(meta: Any, saver: str) -> None:
    meta.object_graph_def.nodes.add().captured_tensor.concrete_function = saver


def of_the_model(meta: Any) -> str:
    """The name of a function that is none of the saver's."""
    names = [each.signature.name for each in meta.graph_def.library.function]
    return str(next(name for name in names if "traced" not in name))


PLACES = (
    called_by_an_operation,
    called_by_one_of_several,
    called_within_a_function,
    given_to_a_function,
    an_operation_of_its_name,
    of_the_object_graph,
    of_a_signature,
    of_a_method,
    of_a_captured_value,
)
"""Each puts the name of a function where TensorFlow may take it from."""


@pytest.mark.parametrize("function", ["__inference__traced_save", "__inference__traced_restore"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_function_of_the_saver_is_refused_wherever_it_could_be_called(
    good: dict[str, Path], tmp_path: Path, place: Callable[[Any, str], None], function: str
) -> None:
    def hide(meta: Any) -> None:
        names = [each.signature.name for each in meta.graph_def.library.function]
        place(meta, next(name for name in names if name.startswith(function)))

    with pytest.raises(Failed, match=f"{function}_.* is called|the operation {function}_"):
        FORMATS["saved_model"].check(changed(good, tmp_path, hide))


def test_a_graph_without_objects_is_refused(good: dict[str, Path], tmp_path: Path) -> None:
    """It is one of TensorFlow 1, whose variables its own functions restore when it is loaded."""
    with pytest.raises(Failed, match="no objects"):
        FORMATS["saved_model"].check(changed(good, tmp_path, lambda meta: meta.ClearField("object_graph_def")))


def test_another_graph_beside_the_first_is_refused(good: dict[str, Path], tmp_path: Path) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    path = Path(shutil.copytree(good["saved_model"], tmp_path / "two"))
    proto = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    proto.meta_graphs.add().CopyFrom(proto.meta_graphs[0])
    for count in (2, 0):
        del proto.meta_graphs[count:]
        (path / "saved_model.pb").write_bytes(proto.SerializeToString())
        with pytest.raises(Failed, match=f"{count} graphs"):
            FORMATS["saved_model"].check(path)


@pytest.mark.parametrize("operation", sorted(SAVER))
def test_an_operation_of_the_saver_is_in_its_functions_alone(
    good: dict[str, Path], tmp_path: Path, operation: str
) -> None:
    def top(meta: Any) -> None:
        meta.graph_def.node.add(name="more", op=operation)

    def inner(meta: Any) -> None:
        [function] = [each for each in meta.graph_def.library.function if each.signature.name == of_the_model(meta)]
        function.node_def.add(name="more", op=operation)

    for place in (top, inner):
        with pytest.raises(Failed, match=rf"the operation {operation} \(more"):
            FORMATS["saved_model"].check(changed(good, tmp_path / place.__name__, place))


def test_assets_other_files_and_links_are_refused(good: dict[str, Path], tmp_path: Path) -> None:
    check = FORMATS["saved_model"].check

    def asset(meta: Any) -> None:
        meta.asset_file_def.add(filename="../../secret").tensor_info.name = "asset:0"

    with pytest.raises(Failed, match=r"the asset '\.\./\.\./secret'"):
        check(changed(good, tmp_path / "asset", asset))
    more = changed(good, tmp_path / "more", lambda meta: None)
    (more / "assets").mkdir(exist_ok=True)
    (more / "assets/words.txt").write_text("a")
    with pytest.raises(Failed, match=r"assets/words\.txt; a SavedModel is its graph and its variables"):
        check(more)
    linked = changed(good, tmp_path / "linked", lambda meta: None)
    index = linked / "variables/variables.index"
    index.rename(tmp_path / "elsewhere")
    index.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Failed, match=r"variables/variables\.index, a link"):
        check(linked)
    (more / "saved_model.pb").write_bytes(b"\xff not a graph")
    shutil.rmtree(more / "assets")
    with pytest.raises(Failed, match="a SavedModel has a graph"):
        check(more)


def custom_operator(model: Any) -> None:
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    model.operatorCodes[0].customCode = b"FlexReadFile"


def custom_by_one_of_its_two_codes(name: str) -> Callable[[Any], None]:
    """LiteRT takes the larger one."""

    def change(model: Any) -> None:
        model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 0
        setattr(model.operatorCodes[0], name, schema.BuiltinOperator.CUSTOM)

    return change


def delegate(model: Any) -> None:
    model.operatorCodes[0].builtinCode = schema.BuiltinOperator.DELEGATE


def unknown_operator(model: Any) -> None:
    model.operatorCodes[0].builtinCode = 9999


def huge_tensor(model: Any) -> None:
    model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shape = np.array([1 << 20, 1 << 20], np.int32)


def negative_tensor(model: Any) -> None:
    model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shape = np.array([-5, 3], np.int32)


def tensor_out_of_range(model: Any) -> None:
    model.subgraphs[0].operators[0].inputs = np.array([9999], np.int32)


def operator_out_of_range(model: Any) -> None:
    model.subgraphs[0].operators[0].opcodeIndex = 77


def buffer_out_of_range(model: Any) -> None:
    model.subgraphs[0].tensors[0].buffer = 7777


def index_of(*path: str | int) -> Callable[[Any], None]:
    """Set what `path` leads to from the model, a list of indices or one, to an index that there is not."""

    def change(model: Any) -> None:
        place = model
        for step in path[:-1]:
            place = place[step] if isinstance(step, int) else getattr(place, step)
        name = str(path[-1])
        count = len(model.subgraphs[0].tensors)
        setattr(place, name, count if name.endswith("Index") else np.array([count], np.int32))

    return change


def constant_outside(model: Any) -> None:
    """Of a file of more than 2 GiB values are behind the flatbuffer."""
    buffer = model.buffers[model.subgraphs[0].tensors[0].buffer]
    buffer.data, buffer.offset, buffer.size = None, 1 << 20, 4


def short_constant(model: Any) -> None:
    [constant, *_] = [each for each in model.subgraphs[0].tensors if model.buffers[each.buffer].data is not None]
    model.buffers[constant.buffer].data = model.buffers[constant.buffer].data[:1]


TFLITE: dict[str, tuple[Callable[[Any], None], str]] = {
    "custom operator": (custom_operator, "an operator FlexReadFile; the operators of a model are those"),
    "custom by its code": (custom_by_one_of_its_two_codes("builtinCode"), "an operator CUSTOM;"),
    "custom by its old code": (custom_by_one_of_its_two_codes("deprecatedBuiltinCode"), "an operator CUSTOM;"),
    "delegate": (delegate, "an operator DELEGATE;"),
    "unknown operator": (unknown_operator, "an operator 9999;"),
    "huge tensor": (huge_tensor, "bytes; the tensors of a model have 8 GiB at most"),
    "negative tensor": (negative_tensor, "sizes are not negative"),
    "tensor out of range": (tensor_out_of_range, "tensor 9999 of"),
    "result out of range": (index_of("subgraphs", 0, "operators", 0, "outputs"), r"tensor (\d+) of \1;"),
    "intermediate out of range": (index_of("subgraphs", 0, "operators", 0, "intermediates"), r"tensor (\d+) of \1;"),
    "input out of range": (index_of("subgraphs", 0, "inputs"), r"tensor (\d+) of \1;"),
    "output out of range": (index_of("subgraphs", 0, "outputs"), r"tensor (\d+) of \1;"),
    "argument out of range": (index_of("signatureDefs", 0, "inputs", 0, "tensorIndex"), r"tensor (\d+) of \1;"),
    "answer out of range": (index_of("signatureDefs", 0, "outputs", 0, "tensorIndex"), r"tensor (\d+) of \1;"),
    "graph out of range": (index_of("signatureDefs", 0, "subgraphIndex"), r"subgraph \d+ of 1;"),
    "constant outside": (constant_outside, "constants are within the file"),
    "operator out of range": (operator_out_of_range, "operator code 77 of"),
    "buffer out of range": (buffer_out_of_range, "buffer 7777 of"),
    "short constant": (short_constant, "a constant has all of its values"),
}


@pytest.mark.parametrize("fault", TFLITE)
def test_a_hostile_litert_file_is_refused_before_it_is_loaded(
    good: dict[str, Path], tmp_path: Path, fault: str
) -> None:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(good["litert"].read_bytes(), 0))
    change, words = TFLITE[fault]
    change(model)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "litert").mkdir()
    (tmp_path / "litert/model.tflite").write_bytes(builder.Output())
    with pytest.raises(Failed, match=words):
        float_model(tmp_path)


def test_a_flatbuffer_whose_offsets_lead_out_of_it_is_refused(good: dict[str, Path], tmp_path: Path) -> None:
    content = good["litert"].read_bytes()
    (tmp_path / "litert").mkdir()
    file = tmp_path / "litert/model.tflite"
    for cut in (content[: len(content) // 2], struct.pack("<I", 1 << 30) + content[4:], b"no TFLite", b""):
        file.write_bytes(cut)
        with pytest.raises(Failed, match="invalid flatbuffer|a LiteRT file is a flatbuffer TFL3"):
            float_model(tmp_path)


def test_onnx_weights_outside_of_the_file_and_operators_of_others_are_refused(
    good: dict[str, Path], tmp_path: Path
) -> None:
    import onnx as library

    model = library.load(good["onnx"])
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = library.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../../etc/passwd")
    (tmp_path / "external.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(Failed, match=r"is in another file, \.\./\.\./\.\./etc/passwd; weights are in the file itself"):
        FORMATS["onnx"].check(tmp_path / "external.onnx")
    model = library.load(good["onnx"])
    model.graph.node[0].domain = "ai.somebody"
    (tmp_path / "domain.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(Failed, match=r"operators of ai\.somebody"):
        FORMATS["onnx"].check(tmp_path / "domain.onnx")
    (tmp_path / "no.onnx").write_bytes(b"\xffnot one")
    with pytest.raises(Failed, match="it is a file of ONNX"):
        FORMATS["onnx"].check(tmp_path / "no.onnx")


def test_openvinos_folder_has_two_files_and_no_definitions(good: dict[str, Path], tmp_path: Path) -> None:
    more = Path(shutil.copytree(good["openvino"], tmp_path / "more"))
    (more / "extension.so").write_bytes(b"")
    with pytest.raises(Failed, match=r"extension\.so, model\.bin, model\.xml; it holds the files"):
        FORMATS["openvino"].check(more)
    defined = Path(shutil.copytree(good["openvino"], tmp_path / "defined"))
    text = (defined / "model.xml").read_text()
    (defined / "model.xml").write_text(text.replace("<net", '<!DOCTYPE net [<!ENTITY a "b">]><net', 1))
    with pytest.raises(Failed, match="<!DOCTYPE; a graph has no definitions of its own"):
        FORMATS["openvino"].check(defined)
    linked = Path(shutil.copytree(good["openvino"], tmp_path / "linked"))
    (linked / "model.bin").rename(tmp_path / "elsewhere")
    (linked / "model.bin").symlink_to(tmp_path / "elsewhere")
    folder = Path(shutil.copytree(good["openvino"], tmp_path / "folder"))
    (folder / "model.bin").unlink()
    (folder / "model.bin").mkdir()
    for wrong in (linked, folder):
        with pytest.raises(Failed, match=r"model\.bin, model\.xml; it holds the files"):
            FORMATS["openvino"].check(wrong)


def test_a_safetensors_header_that_describes_more_than_follows_is_refused(
    good: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "short").write_bytes(good["safetensors"].read_bytes()[:-4])
    with pytest.raises(Failed, match="its header describes what follows"):
        FORMATS["safetensors"].check(tmp_path / "short")


def test_stablehlo_that_calls_what_the_process_has_is_refused(tmp_path: Path) -> None:
    """A function in a library, which JAX only exports where its check is turned off."""
    import jax
    from jax import export

    def call(batch: Any) -> Any:
        numbers = batch["numbers"]
        return {"logits": jax.ffi.ffi_call("somebodys", jax.ShapeDtypeStruct(numbers.shape, numbers.dtype))(numbers)}

    numbers = {"numbers": jax.ShapeDtypeStruct((2, 3), np.float32)}
    unchecked = [export.DisabledSafetyCheck.custom_call("somebodys")]
    made = export.export(jax.jit(call), platforms=("cpu",), disabled_checks=unchecked)(numbers)
    (tmp_path / "model.stablehlo").write_bytes(made.serialize())
    with pytest.raises(Failed, match="a call of somebodys; operations are those of StableHLO"):
        FORMATS["stablehlo"].check(tmp_path / "model.stablehlo")
    (tmp_path / "no").write_bytes(b"not one")
    with pytest.raises(Failed, match="it is an exported function of JAX"):
        FORMATS["stablehlo"].check(tmp_path / "no")
