"""A SavedModel and a LiteRT file from anywhere: what is refused before they are read.

TensorFlow's security guide calls a model a program: its operations may read and write files, and loading runs some of
them. So only those are accepted that compute.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import Failed
from tasks.exporting.formats.format import TRUST

_COMPUTE = """
Abs Acos Acosh Add AddN AddV2 AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation All Angle Any
ApproximateEqual ArgMax ArgMin AsString Asin Asinh Atan Atan2 Atanh AvgPool AvgPool3D BatchMatMul BatchMatMulV2
BatchMatMulV3 BatchToSpaceND BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1
BesselK1e BesselY0 BesselY1 BiasAdd BiasAddV1 Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs
BroadcastTo Bucketize CTCGreedyDecoder Cast Ceil Cholesky ClipByValue CombinedNonMaxSuppression Complex ComplexAbs
Concat ConcatV2 Conj Const Conv Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 Cos Cosh CropAndResize Cross
Cumprod Cumsum DecodeBase64 DecodePaddedRaw DecodeRaw DenseBincount DenseToDenseSetOperation DepthToSpace
DepthwiseConv2dNative Diag DiagPart Digamma Div DivNoNan DynamicPartition DynamicStitch Eig Einsum Elu EmptyTensorList
EncodeBase64 EnsureShape Equal Erf Erfc Erfinv Exp ExpandDims Expm1 ExtractImagePatches FFT FFT2D FFT3D FFTND
FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars Fill Floor FloorDiv FloorMod FusedBatchNorm FusedBatchNormV2
FusedBatchNormV3 Gather GatherNd GatherV2 Greater GreaterEqual HSVToRGB IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D
IRFFT3D IRFFTND Identity IdentityN Igamma Igammac Imag ImageProjectiveTransformV2 ImageProjectiveTransformV3 InTopKV2
Invert InvertPermutation IsFinite IsInf IsNan L2Loss LRN LSTMBlockCell LeakyRelu LeftShift Less LessEqual Lgamma
LinSpace ListDiff Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr LowerBound Lu MatMul MatrixBandPart
MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
MatrixExponential MatrixInverse MatrixLogarithm MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve
MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max MaxPool MaxPool3D MaxPoolV2 MaxPoolWithArgmax Maximum Mean
Min Minimum MirrorPad Mod Mul Ndtri Neg NextAfter NoOp NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps NotEqual OneHot OnesLike Pack Pad PadV2
ParallelConcat ParallelDynamicStitch PartitionedCall Placeholder Polygamma PopulationCount Pow PreventGradient Prod Qr
RFFT RFFT2D RFFT3D RFFTND RGBToHSV RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToSparse
RaggedTensorToTensor RaggedTensorToVariant Range Rank Real RealDiv Reciprocal ReduceJoin RegexFullMatch RegexReplace
Relu Relu6 Reshape ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ReverseSequence ReverseV2 RightShift
Rint Roll Round Rsqrt ScatterNd SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2
SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEigV2 Selu Shape Sigmoid Sign Sin Sinh Size Slice Softmax
SoftmaxCrossEntropyWithLogits Softplus Softsign SpaceToBatchND SpaceToDepth SparseFillEmptyRows SparseReshape
SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments
SparseSegmentSum SparseSegmentSumWithNumSegments SparseSoftmaxCrossEntropyWithLogits SparseToDense Split SplitV Sqrt
Square SquaredDifference Squeeze StatelessCase StatelessIf StatelessMultinomial StatelessParameterizedTruncatedNormal
StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetKeyCounter
StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson
StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2
StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringFormat StringJoin StringLength
StringLower StringNGrams StringSplit StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast
StringToHashBucketStrong StringToNumber StringUpper Sub Substr Sum Svd Tan Tanh TensorListConcat TensorListConcatLists
TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack
TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate Tile TopKV2 Transpose
TruncateDiv TruncateMod UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode Unique
UniqueV2 UniqueWithCounts Unpack UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
UnsortedSegmentSum UpperBound Where Xdivy Xlog1py Xlogy ZerosLike Zeta
"""

_STATEFUL = """
VarHandleOp ReadVariableOp AssignVariableOp VarIsInitializedOp DestroyResourceOp ResourceGather ResourceGatherNd
StatefulPartitionedCall If While Case Assert RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal
"""

COMPUTE = frozenset(_COMPUTE.split())
"""Operations whose outputs depend on their inputs alone: those that TensorFlow registers as without a state and that
tf2onnx has a counterpart for, with their relatives (other versions, texts, ragged tensors, random numbers by a key).
That TensorFlow calls an operation stateless is not enough: `ReadFile`, `InitializeTableFromTextFile`,
`PyFuncStateless`, `GenerateVocabRemapping` and `Abort` are."""

STATEFUL = frozenset(_STATEFUL.split())
"""Operations whose state is within the process: variables, calls of functions in the graph, random numbers."""

SAVER = frozenset(["SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename", "DisableCopyOnRead"])
"""Operations of the functions that save and restore variables, which loading does not call."""


GRAPH = "saved_model.pb"
MOST_GRAPH_BYTES = 2 << 30
"""Bytes of the graph: protobuf reads no more."""
MOST_VARIABLES = 8 << 30
"""Bytes of the variables' files."""

FILES = {GRAPH, "variables/variables.index", "variables/variables.data-00000-of-00001"}
"""What a SavedModel of ours consists of."""

OTHERWISE = f"{TRUST}; in a model of your own, replace it"


def check_saved_model(path: Path) -> None:
    """Raise `Failed` for a SavedModel that has operations, files or functions which do more than compute.

    Every operation must be one of `COMPUTE` or `STATEFUL`. Those of `SAVER` may be in the two functions of the graph's
    saver, if nothing else calls or names these. It has no assets, which could be files elsewhere, and no other file or
    link beside the graph and its variables.
    """
    _check_files(path)
    meta = _graph_of(path)
    saver = _saver_functions(meta)
    for where, node in _nodes(meta.graph_def):
        _check_operation(path, where, node, saver)
    others = (node for where, node in _nodes(meta.graph_def) if where or node.name not in saver.values())
    called = {name for node in others for name in _calls(node)}
    called |= set(meta.object_graph_def.concrete_functions)
    called |= {name for node in meta.object_graph_def.nodes for name in _named(node)}
    for name in saver:
        if name in called:
            saw = f"the function {name}, which writes or reads files, is called or named"
            raise Failed(str(path), saw, "variables are saved and restored by TensorFlow alone", TRUST)
    assets = [asset.filename for asset in meta.asset_file_def]
    if assets:
        raise Failed(str(path), f"the asset {assets[0]!r}", "a model has no files but its variables", TRUST)


def _check_files(path: Path) -> None:
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if file.is_symlink() or (file.is_file() and name not in FILES):
            saw = f"{name}{', a link' if file.is_symlink() else ''}"
            raise Failed(str(path), saw, "a SavedModel is its graph and its variables", TRUST)
    sizes = {file: file.stat().st_size for file in path.rglob("*") if file.is_file()}
    if sizes.get(path / GRAPH, 0) > MOST_GRAPH_BYTES or sum(sizes.values()) > MOST_GRAPH_BYTES + MOST_VARIABLES:
        rule = f"a graph has {MOST_GRAPH_BYTES >> 30} GiB at most, its variables {MOST_VARIABLES >> 30}"
        raise Failed(str(path), f"{sum(sizes.values()):,} bytes", rule, TRUST)


def _graph_of(path: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    try:
        proto = SavedModel.FromString((path / GRAPH).read_bytes())
    except (OSError, DecodeError) as error:
        raise Failed(str(path / GRAPH), str(error), "a SavedModel has a graph", TRUST) from error
    if len(proto.meta_graphs) != 1:
        raise Failed(str(path), f"{len(proto.meta_graphs)} graphs", "a SavedModel has one", TRUST)
    if not proto.meta_graphs[0].HasField("object_graph_def"):
        rule = "variables of a graph of TensorFlow 1 are restored by functions of its own"
        raise Failed(str(path), "no objects", rule, TRUST)
    return proto.meta_graphs[0]


def _saver_functions(meta: Any) -> dict[str, str]:
    """Return the names of the functions that the saver calls to save and to restore, with the nodes that call them."""
    ends = (meta.saver_def.save_tensor_name.partition(":")[0], meta.saver_def.restore_op_name)
    nodes = {node.name: node for node in meta.graph_def.node if node.name in ends}
    return {name: end for end, node in nodes.items() for name in _calls(node)}


def _nodes(graph: Any) -> Iterator[tuple[str, Any]]:
    """Yield all nodes of a graph, each with the name of the function that it is in; "" for the graph itself."""
    yield from (("", node) for node in graph.node)
    for function in graph.library.function:
        yield from ((function.signature.name, node) for node in function.node_def)


def _calls(node: Any) -> Iterable[str]:
    """Return the names of the functions that a node calls, and of those that it gives to them."""
    for value in node.attr.values():
        for each in (value.func, *value.list.func):
            if each.name:
                yield each.name
            yield from _calls(each)


def _named(node: Any) -> Iterable[str]:
    """Return the names of the functions that a node of the object graph has; they need not be in its own list."""
    yield from node.function.concrete_functions
    yield node.bare_concrete_function.concrete_function_name
    yield node.captured_tensor.concrete_function


def _check_operation(path: Path, where: str, node: Any, saver: dict[str, str]) -> None:
    if node.op in COMPUTE or node.op in STATEFUL or (node.op in SAVER and where in saver):
        return
    saw = f"the operation {node.op} ({node.name}{f' in {where}' if where else ''})"
    raise Failed(str(path), saw, "a model's operations compute, and read or write nothing else", OTHERWISE)


IDENTIFIER = b"TFL3"
"""The file identifier of the format, at byte 4."""

MOST_TENSOR_BYTES = 8 << 30
"""Bytes of all tensors of a file in their written shapes: those of which LiteRT reserves memory when it loads."""
MOST_TENSORS = 1_000_000
"""Tensors and operators of a file."""

FAULTS = (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError)
"""What reading an invalid flatbuffer raises: an offset that leads out of the file, a size that cannot be."""


def check_litert(path: Path) -> None:
    """Raise `Failed` for a file that is no valid model, runs code of its own, or asks for too much memory.

    Every table of the flatbuffer is read, each offset within the file, as LiteRT reads it without a check. Operators
    that are not built in (custom ones, and Flex, which are TensorFlow's) call what is registered in the process.
    """
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    if len(content) < 8 or content[4:8] != IDENTIFIER:
        raise Failed(str(path), f"begins with {content[:8]!r}", "a LiteRT file is a flatbuffer TFL3", TRUST)
    try:
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
        _check_model(path, model, len(content), schema)
    except FAULTS as error:
        saw = f"an invalid flatbuffer ({type(error).__name__}: {error})"
        raise Failed(str(path), saw, "every table of a LiteRT file is within it", TRUST) from error


def _check_model(path: Path, model: Any, size: int, schema: Any) -> None:
    builtin = schema.BuiltinOperator
    names = {number: name for name, number in vars(builtin).items() if not name.startswith("_")}
    codes = []
    for code in model.operatorCodes:
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        custom = (code.customCode or b"").decode("utf-8", "replace")
        if custom or number in (builtin.CUSTOM, builtin.DELEGATE) or number not in names:
            saw = f"an operator {custom or names.get(number, number)}"
            raise Failed(str(path), saw, "the operators of a model are those that are built into LiteRT", TRUST)
        codes.append(number)
    counts = [len(graph.tensors) + len(graph.operators) for graph in model.subgraphs]
    if sum(counts) > MOST_TENSORS:
        rule = f"a model has {MOST_TENSORS:,} tensors and operators at most"
        raise Failed(str(path), f"{sum(counts):,} tensors and operators", rule, TRUST)
    total = 0
    for graph in model.subgraphs:
        count = len(graph.tensors)
        for tensor in graph.tensors:
            total += _check_tensor(path, tensor, model.buffers, size, schema)
        for operator in graph.operators:
            _check_indices(path, "operator code", [operator.opcodeIndex], len(codes))
            for side in (operator.inputs, operator.outputs, operator.intermediates):
                _check_indices(path, "tensor", _listed(side), count, optional=True)
        for side in (graph.inputs, graph.outputs):
            _check_indices(path, "tensor", _listed(side), count)
    for signature in model.signatureDefs or ():
        _check_indices(path, "subgraph", [signature.subgraphIndex], len(model.subgraphs))
        tensors = [each.tensorIndex for each in (*(signature.inputs or ()), *(signature.outputs or ()))]
        _check_indices(path, "tensor", tensors, len(model.subgraphs[signature.subgraphIndex].tensors))
    if total > MOST_TENSOR_BYTES:
        rule = f"the tensors of a model have {MOST_TENSOR_BYTES >> 30} GiB at most"
        raise Failed(str(path), f"tensors of {total:,} bytes", rule, TRUST)


def _check_tensor(path: Path, tensor: Any, buffers: list[Any], size: int, schema: Any) -> int:
    """Return the bytes of a tensor; raise `Failed` where its constant values are not that many, or elsewhere."""
    name = (tensor.name or b"").decode("utf-8", "replace")
    _check_indices(path, "buffer", [tensor.buffer], len(buffers))
    shape = _listed(tensor.shape)
    if any(length < 0 for length in shape):
        raise Failed(str(path), f"tensor {name} of shape {shape}", "sizes are not negative", TRUST)
    bits = BITS.get(_type_name(tensor.type, schema))
    needed = 0 if bits is None else -(-math.prod(shape) * bits // 8)
    buffer = buffers[tensor.buffer]
    if buffer.offset > 1:  # of a large file, whose values are behind the flatbuffer
        if buffer.offset + buffer.size > size:
            saw = f"tensor {name} in bytes {buffer.offset:,} to {buffer.offset + buffer.size:,} of {size:,}"
            raise Failed(str(path), saw, "constants are within the file", TRUST)
        held = int(buffer.size)
    else:
        held = 0 if buffer.data is None else len(buffer.data)
    if held and bits is not None and held < needed and tensor.sparsity is None:
        saw = f"tensor {name} of {needed:,} bytes with {held:,}"
        raise Failed(str(path), saw, "a constant has all of its values", TRUST)
    return needed


BITS = {
    **dict.fromkeys(("FLOAT64", "INT64", "UINT64", "COMPLEX64"), 64),
    **dict.fromkeys(("FLOAT32", "INT32", "UINT32"), 32),
    **dict.fromkeys(("FLOAT16", "BFLOAT16", "INT16", "UINT16"), 16),
    **dict.fromkeys(("INT8", "UINT8", "BOOL"), 8),
    "COMPLEX128": 128,
    "INT4": 4,
    "INT2": 2,
}
"""Bits of a value, by the name of the type; of texts and resources there is no size."""


def _type_name(number: int, schema: Any) -> str:
    return next((name for name, value in vars(schema.TensorType).items() if value == number), "")


def _check_indices(path: Path, what: str, indices: list[int], count: int, optional: bool = False) -> None:
    """Raise `Failed` where an index is not of one of `count`; -1 stands for none where there may be none."""
    for index in indices:
        if not (-1 if optional else 0) <= index < count:
            raise Failed(str(path), f"{what} {index} of {count}", "every index is of something in the file", TRUST)


def _listed(vector: Any) -> list[int]:
    return [] if vector is None else [int(value) for value in np.asarray(vector).ravel()]
