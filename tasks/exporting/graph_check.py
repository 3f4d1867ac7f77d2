"""Checks of a SavedModel's graph before it is run: only known operations.

TensorFlow's security guide calls a model a program: its operations may read and write files, and loading runs some of
them. So only those are accepted that compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tasks.errors import Failed

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
MOST_BYTES = 2 << 30
"""Bytes of the graph: protobuf reads no more."""
MOST_VARIABLES = 8 << 30
"""Bytes of the variables' files."""

FILES = {GRAPH, "variables/variables.index", "variables/variables.data-00000-of-00001"}
"""What a SavedModel of ours consists of."""

TRUST = "use an export from a source that you trust"
OTHERWISE = f"{TRUST}; in a model of your own, replace it"


def check(path: Path) -> None:
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
    if sizes.get(path / GRAPH, 0) > MOST_BYTES or sum(sizes.values()) > MOST_BYTES + MOST_VARIABLES:
        rule = f"a graph has {MOST_BYTES >> 30} GiB at most, its variables {MOST_VARIABLES >> 30}"
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
