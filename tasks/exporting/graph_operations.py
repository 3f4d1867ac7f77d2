"""The operations that a SavedModel from anywhere may have."""

from __future__ import annotations

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
