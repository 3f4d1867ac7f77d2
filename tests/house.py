"""The numbers of issue 43 (a house that one person can hold) of any commit, by the same counting before and after.

    python -m tests.house [COMMIT ...]      without one: the working tree; of several the numbers stand side by side

Run by hand. It reads the Python of flows/, tasks/ and infra/, and imports none of it. What the numbers mean:

- *files*, *lines*: of all, and of each room. A room is flows, infra, a folder of tasks/, its verbs (the other files of
  tasks/ itself), artifacts.py or errors.py; `config/compose`, above the nouns, is a room of its own.
- *blank*, *comment*, *docstring*: shares of the lines; a docstring is any text that stands alone as a statement, and a
  line of code may have a comment too. They, the longest line and the characters a line of code (without its indent)
  show whether lines were saved by writing densely.
- *floors*: rooms on the longest way down the imports between rooms; rooms in a circle are one. Imports count at the top
  of a module, in functions and under TYPE_CHECKING. *layers*: those of the contract of import-linter.
- *circles*: groups of modules that import one another, by the same imports. `from package import module` is an import
  of the module alone, and no import is one of the packages around it.
- *texts that name code*: a module of ours, `module:function` or `module.name`, as a constant or an f-string, docstrings
  left out. `{}` stands for what an f-string computes. *imports by text*: calls of `import_module`.
- *walks*: the files through which a value passes, as argument, field or result, to the line that uses it (see WALKS).
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.houses import Broken, Graph, House, circles, is_docstring, longest_chain, read, walk

WALKS: dict[str, list[str]] = {
    "train.learning_rate, from the YAML to the optimizer": [
        """
        tasks/config/load.py: load > read_preset > ^load > validate
        tasks/config/__init__.py: Config
        tasks/config/train.py: TrainConfig
        tasks/config/__init__.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/train.py: train > train_one
        tasks/training/fit.py: fit
        tasks/training/plan.py: make_plan
        tasks/config/train.py: TrainConfig.peak_rate
        tasks/training/plan.py: ^make_plan > Plan
        tasks/training/fit.py: ^fit
        tasks/training/engines/__init__.py: build
        tasks/training/engines/tensorflow/__init__.py: build
        tasks/training/engines/tensorflow/engine.py: build
        tasks/training/feeding.py: Feed
        tasks/training/engines/tensorflow/engine.py: ^build > TensorFlowEngine.__init__
        tasks/training/engines/tensorflow/strategies/one_device.py: OneDeviceStrategy.prepare
        tasks/training/fit.py: ^fit
        tasks/training/loop.py: train
        tasks/training/engines/tensorflow/engine.py: TensorFlowEngine.step
        tasks/training/plan.py: Plan.rates
        tasks/training/engines/tensorflow/engine.py: ^TensorFlowEngine.step
        tasks/training/engines/tensorflow/strategies/one_device.py: ^OneDeviceStrategy.prepare
        = step.optimizer.learning_rate.assign(
        """,
        """
        tasks/config/compose.py: load > read_preset > ^load > validate > Config
        tasks/config/train.py: TrainConfig
        tasks/config/compose.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/train.py: train > train_one
        tasks/training/fit.py: fit
        tasks/training/plan.py: make_plan
        tasks/config/train.py: TrainConfig.peak_rate
        tasks/training/plan.py: ^make_plan > Plan
        tasks/training/fit.py: ^fit
        tasks/training/engines/create.py: build
        tasks/training/engines/tensorflow/engine.py: build > TensorFlowEngine.__init__
        tasks/training/engines/tensorflow/strategies/one_device.py: OneDeviceStrategy.prepare
        tasks/training/fit.py: ^fit
        tasks/training/loop.py: train
        tasks/training/engines/tensorflow/engine.py: TensorFlowEngine.step
        tasks/training/plan.py: Plan.rates
        tasks/training/engines/tensorflow/engine.py: ^TensorFlowEngine.step
        tasks/training/engines/tensorflow/strategies/one_device.py: ^OneDeviceStrategy.prepare
        = step.optimizer.learning_rate.assign(
        """,
        """
        tasks/config/compose.py: load > read_preset > ^load > validate > Config
        tasks/training/config.py: TrainConfig
        tasks/config/compose.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/train.py: train > train_one
        tasks/training/fit.py: fit
        tasks/training/plan.py: make_plan > peak_rate > ^make_plan > Plan
        tasks/training/fit.py: ^fit
        tasks/training/loop.py: train
        tasks/training/plan.py: Plan.rates
        tasks/training/loop.py: ^train
        tasks/training/engines/tensorflow/engine.py: TensorFlowEngine.step > ~self._run TensorFlowEngine.__init__
        tasks/training/engines/tensorflow/strategies/one_device.py: OneDeviceStrategy.prepare
        = step.optimizer.learning_rate.assign(
        """,
        """
        tasks/config/compose.py: load > read_preset > ^load > validate > Config
        tasks/training/config.py: TrainConfig
        tasks/config/compose.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/train.py: train > train_one
        tasks/training/fit.py: fit
        tasks/training/loop.py: make_plan > peak_rate > ^make_plan > Plan
        tasks/training/fit.py: ^fit
        tasks/training/loop.py: train > Plan.rates > ^train
        tasks/training/engines/tensorflow/engine.py: TensorFlowEngine.step > ~self._run TensorFlowEngine.__init__
        tasks/training/engines/tensorflow/strategies/__init__.py: OneDeviceStrategy.prepare
        = step.optimizer.learning_rate.assign(
        """,
    ],
    "compress.methods int8_dynamic, from the YAML to the quantiser": [
        """
        tasks/config/load.py: load > read_preset > ^load > validate
        tasks/config/__init__.py: Config
        tasks/config/compress.py: CompressConfig
        tasks/config/methods.py: Methods > MethodName
        tasks/config/__init__.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/compress.py: compress
        tasks/config/compress.py: CompressConfig.chains
        tasks/config/methods.py: chain_of > _ADAPTER > MethodConfig > OnFile > Int8Dynamic
        tasks/config/method.py: Method
        tasks/compress.py: ^compress
        tasks/compression/forms.py: compressed > Form
        tasks/compress.py: ^compress
        tasks/compression/variants.py: build
        tasks/compression/forms.py: Form.on_file
        tasks/compression/variants.py: ^build
        tasks/compression/__init__.py: file_method > METHODS
        tasks/compression/int8_dynamic.py: write > int8
        tasks/compression/quantizing.py: quantised
        = work.quantize(
        """,
        """
        tasks/config/compose.py: load > read_preset > ^load > validate > Config
        tasks/compression/config.py: CompressConfig > Methods
        tasks/config/compose.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/compress.py: compress
        tasks/compression/config.py: CompressConfig.chains > chain_of
        tasks/compress.py: ^compress
        tasks/compression/specs.py: compressed > VariantSpec
        tasks/compress.py: ^compress
        tasks/compression/work.py: write_variant
        tasks/compression/variants.py: build
        tasks/compression/specs.py: VariantSpec.on_file
        tasks/compression/variants.py: ^build
        tasks/compression/methods/quantise.py: Int8Dynamic.write > int8 > quantised
        = work.quantize(
        """,
    ],
    "source.missing, from the YAML to the reader of CSV": [
        """
        tasks/config/load.py: load > read_preset > ^load > validate
        tasks/config/__init__.py: Config
        tasks/config/sources/__init__.py: SourceConfig > AnySource
        tasks/config/sources/tables.py: CsvSource
        tasks/config/__init__.py: ^Config
        flows/pipeline.py: ^pipeline
        tasks/convert.py: convert
        tasks/data/records.py: build
        tasks/data/sources/__init__.py: open_source > KINDS
        tasks/data/sources/csv.py: open > Csv
        tasks/data/sources/delimited.py: Delimited
        tasks/data/sources/table_files.py: Tables.__init__
        tasks/data/sources/csv.py: ^Csv > Csv._table
        = null_values=config.missing
        """,
        """
        tasks/config/compose.py: load > read_preset > ^load > validate > Config
        flows/pipeline.py: ^pipeline
        tasks/convert.py: convert
        tasks/records/work.py: convert
        tasks/records/conversion.py: build
        tasks/sources/kinds/tables.py: CsvSource.open
        tasks/sources/csv.py: Csv > Csv._table
        = null_values=self._missing
        """,
    ],
    "a row of CSV with a number, from its file to the model": [
        """
        tasks/data/sources/delimited.py: Delimited.rows
        tasks/data/sources/blocks.py: blocks > Block
        tasks/data/sources/delimited.py: ^Delimited.rows
        tasks/data/sources/csv.py: Csv.parsed > Csv._table > ^Csv.parsed
        tasks/data/sources/rows.py: texts
        tasks/data/sources/csv.py: ^Csv.parsed
        tasks/data/sources/rows.py: Numbered.rows
        tasks/data/sources/__init__.py: Rows
        tasks/data/sources/delimited.py: ^Delimited.rows
        tasks/data/sources/table_files.py: ^Tables.read
        tasks/data/sources/payloads.py: Payloads.filled
        tasks/data/sources/table_files.py: ^Tables.read
        tasks/data/sorting.py: ^Sorter.sort > Sorter._sorted_out > Sorter._typed
        tasks/data/cells.py: typed
        tasks/data/kinds/__init__.py: kind_of > KINDS
        tasks/data/kinds/number.py: typed > array_of
        tasks/data/cells.py: ^typed
        tasks/data/sorting.py: ^Sorter._typed > ^Sorter._sorted_out > ^Sorter.sort > Sorter._written > write_run
        tasks/data/merging.py: ~pa.ipc Runs._open > ^Runs > ^Merger > Merger._rows > ^Merger._ranges > ^Merger.write
        tasks/data/kinds/__init__.py: kind_of > KINDS
        tasks/data/kinds/number.py: entry
        tasks/data/encoding.py: floats_entry
        tasks/data/merging.py: ^Merger.write
        tasks/data/encoding.py: examples
        tasks/data/merging.py: ^Merger.write
        tasks/data/encoding.py: framed
        tasks/data/merging.py: ^Merger.write
        tasks/data/reading.py: ~index RecordsReader._splits > _Split
        tasks/data/tfrecord.py: RecordFile
        tasks/data/reading.py: ^RecordsReader._splits > ^RecordsReader._split > ^RecordsReader.raw
        tasks/data/reading.py: ^RecordsReader.table
        tasks/data/tables.py: column_of
        tasks/data/kinds/number.py: array_of
        tasks/data/reading.py: ^RecordsReader.table > ^RecordsReader.tables
        tasks/data/snapshots/table.py: ^_batches > ^_write > _make
        tasks/data/transforms/columns.py: typed
        tasks/data/snapshots/table.py: ^_make
        tasks/data/reader/__init__.py: Reader.apply > ^Reader
        tasks/data/reader/standardise.py: load
        tasks/data/reader/filled.py: filling
        tasks/data/reader/__init__.py: ^Reader.apply
        tasks/data/snapshots/table.py: ^_make > ^_write
        tasks/data/arrays.py: ArrayWriter
        tasks/data/pipeline.py: ~.npy SnapshotReader._files > ^SnapshotReader._array
        tasks/data/arrays.py: open_array
        tasks/data/pipeline.py: ^SnapshotReader._array > ^SnapshotReader.arrays > ^SnapshotReader.reader
        tasks/data/batches.py: BatchReader > BatchReader.read
        tasks/training/feeding.py: ^Feed._read > ^Feed._fill > ^Feed > Feed._next > ^Feed.take
        tasks/training/engines/tensorflow/engine.py: ^TensorFlowEngine.step > ^TensorFlowEngine
        tasks/training/engines/tensorflow/strategies/one_device.py: OneDeviceStrategy.prepare
        tasks/training/engines/tensorflow/step.py: Step.__call__ > Step.accumulated > Step.sums > Step.forward
        tasks/training/engines/tensorflow/objectives/__init__.py: Objective.inputs
        tasks/models/forward.py: arguments
        tasks/training/engines/tensorflow/step.py: ^Step.forward
        = self.model(inputs, training=True)
        """,
        """
        tasks/sources/delimited.py: Delimited.rows
        tasks/sources/delimited.py: blocks > Block
        tasks/sources/delimited.py: ^Delimited.rows
        tasks/sources/csv.py: Csv.parsed > Csv._table > ^Csv.parsed
        tasks/sources/rows.py: texts
        tasks/sources/csv.py: ^Csv.parsed
        tasks/sources/rows.py: Numbered.rows
        tasks/sources/__init__.py: Rows
        tasks/sources/delimited.py: ^Delimited.rows
        tasks/sources/table_files.py: ^Tables.read
        tasks/records/sorting.py: ^Sorter.sort > Sorter._sorted_out > Sorter._typed
        tasks/records/cells.py: typed
        tasks/records/column_types/numbers.py: Number.typed > Number.array
        tasks/records/cells.py: ^typed
        tasks/records/sorting.py: ^Sorter._typed > ^Sorter._sorted_out > ^Sorter.sort > Sorter._written > write_spill
        tasks/records/merging.py: ~pa.ipc Spills._open > ^Spills > ^Merger > Merger._rows
        tasks/records/merging.py: ^Merger._ranges > ^Merger.write
        tasks/records/column_types/numbers.py: Number.entry
        tasks/sources/encoding.py: floats_entry
        tasks/records/merging.py: ^Merger.write
        tasks/sources/encoding.py: examples
        tasks/records/merging.py: ^Merger.write
        tasks/sources/encoding.py: framed
        tasks/records/merging.py: ^Merger.write
        tasks/records/reading.py: ~index RecordsReader._splits > _Split
        tasks/sources/record_files.py: RecordFile
        tasks/records/reading.py: ^RecordsReader._splits > ^RecordsReader._split > ^RecordsReader.raw
        tasks/records/reading.py: ^RecordsReader.table
        tasks/records/tables.py: column_of
        tasks/records/column_types/numbers.py: Number.array
        tasks/records/reading.py: ^RecordsReader.table > ^RecordsReader.tables
        tasks/snapshots/table.py: ^_batches > ^_write > _make
        tasks/records/reading.py: typed
        tasks/snapshots/table.py: ^_make
        tasks/reader/__init__.py: Reader.apply > ^Reader
        tasks/reader/standardise.py: load
        tasks/reader/filled.py: filling
        tasks/reader/__init__.py: ^Reader.apply
        tasks/snapshots/table.py: ^_make > ^_write
        tasks/records/arrays.py: ArrayWriter
        tasks/feed/snapshot_reader.py: ~.npy SnapshotReader._files > ^SnapshotReader._array
        tasks/records/arrays.py: open_array
        tasks/feed/snapshot_reader.py: ^SnapshotReader._array > ^SnapshotReader.arrays > ^SnapshotReader.reader
        tasks/feed/batches.py: BatchReader > BatchReader.read
        tasks/training/feeding.py: ^Feed._read > ^Feed._fill > ^Feed > Feed._next > ^Feed.take
        tasks/training/engines/tensorflow/engine.py: ^TensorFlowEngine.step > ^TensorFlowEngine
        tasks/training/engines/tensorflow/strategies/one_device.py: OneDeviceStrategy.prepare
        tasks/training/engines/tensorflow/step.py: Step.__call__ > Step.accumulated > Step.sums > Step.forward
        tasks/training/engines/tensorflow/objectives.py: Objective.inputs
        tasks/models/forward.py: arguments
        tasks/training/engines/tensorflow/step.py: ^Step.forward
        = self.model(inputs, training=True)
        """,
        """
        tasks/sources/delimited.py: Delimited.rows > blocks > Block > ^Delimited.rows
        tasks/sources/csv.py: Csv.parsed > Csv._table > ^Csv.parsed
        tasks/sources/table_files.py: texts
        tasks/sources/csv.py: ^Csv.parsed
        tasks/sources/table_files.py: Numbered.rows
        tasks/sources/__init__.py: Rows
        tasks/sources/delimited.py: ^Delimited.rows
        tasks/sources/table_files.py: ^Tables.read
        tasks/records/sorting.py: ^Sorter.sort > Sorter._sorted_out > Sorter._typed
        tasks/records/column_types/__init__.py: typed
        tasks/records/column_types/numbers.py: Number.typed > Number.array
        tasks/records/column_types/__init__.py: ^typed
        tasks/records/sorting.py: ^Sorter._typed > ^Sorter._sorted_out > ^Sorter.sort > Sorter._written > write_spill
        tasks/records/merging.py: ~pa.ipc Spills._open > ^Spills > ^Merger > Merger._rows
        tasks/records/merging.py: ^Merger._ranges > ^Merger.write
        tasks/records/column_types/numbers.py: Number.entry
        tasks/sources/encoding.py: floats_entry
        tasks/records/merging.py: ^Merger.write
        tasks/sources/encoding.py: examples
        tasks/records/merging.py: ^Merger.write
        tasks/sources/encoding.py: framed
        tasks/records/merging.py: ^Merger.write
        tasks/records/reading.py: ~index RecordsReader._splits > _Split
        tasks/sources/record_files.py: RecordFile
        tasks/records/reading.py: ^RecordsReader._splits > ^RecordsReader._split > ^RecordsReader.raw
        tasks/records/reading.py: ^RecordsReader.table > column_of
        tasks/records/column_types/numbers.py: Number.array
        tasks/records/reading.py: ^RecordsReader.table > ^RecordsReader.tables
        tasks/snapshots/table.py: ^_batches > ^_write > _make
        tasks/records/reading.py: typed
        tasks/snapshots/table.py: ^_make
        tasks/reader/__init__.py: Reader.apply > ^Reader > transform > FAMILIES
        tasks/reader/numbers.py: ~standardise standardise > filling
        tasks/reader/__init__.py: ^Reader.apply
        tasks/snapshots/table.py: ^_make > ^_write
        tasks/records/arrays.py: ArrayWriter
        tasks/feed/snapshot_reader.py: ~.npy SnapshotReader._files > ^SnapshotReader._array
        tasks/records/arrays.py: open_array
        tasks/feed/snapshot_reader.py: ^SnapshotReader._array > ^SnapshotReader.arrays > ^SnapshotReader.reader
        tasks/feed/snapshot_reader.py: BatchReader > BatchReader.read
        tasks/training/feeding.py: ^Feed._read > ^Feed._fill > ^Feed > Feed._next > ^Feed.take
        tasks/training/engines/tensorflow/engine.py: ^TensorFlowEngine.step > ^TensorFlowEngine
        tasks/training/engines/tensorflow/strategies/__init__.py: OneDeviceStrategy.prepare
        tasks/training/engines/tensorflow/step.py: Step.__call__ > Step.accumulated > Step.sums > Step.forward
        tasks/training/engines/tensorflow/objectives.py: Objective.inputs
        tasks/models/forward.py: arguments
        tasks/training/engines/tensorflow/step.py: ^Step.forward
        = self.model(inputs, training=True)
        """,
        """
        tasks/sources/delimited.py: Delimited.rows > blocks > Block > ^Delimited.rows
        tasks/sources/csv.py: Csv.parsed > Csv._table > ^Csv.parsed
        tasks/sources/table_files.py: texts
        tasks/sources/csv.py: ^Csv.parsed
        tasks/sources/table_files.py: Numbered.rows
        tasks/sources/__init__.py: Rows
        tasks/sources/delimited.py: ^Delimited.rows
        tasks/sources/table_files.py: ^Tables.read
        tasks/records/sorting.py: ^Sorter.sort > Sorter._sorted_out > Sorter._typed
        tasks/records/column_types/__init__.py: typed
        tasks/records/column_types/numbers.py: Number.typed > Number.array
        tasks/records/column_types/__init__.py: ^typed
        tasks/records/sorting.py: ^Sorter._typed > ^Sorter._sorted_out > ^Sorter.sort > Sorter._written > write_spill
        tasks/records/merging.py: ~pa.ipc Spills._open > ^Spills > ^Merger > Merger._rows
        tasks/records/merging.py: ^Merger._ranges > ^Merger.write
        tasks/records/column_types/numbers.py: Number.entry
        tasks/sources/encoding.py: floats_entry
        tasks/records/merging.py: ^Merger.write
        tasks/sources/encoding.py: examples
        tasks/records/merging.py: ^Merger.write
        tasks/sources/encoding.py: framed
        tasks/records/merging.py: ^Merger.write
        tasks/records/reading.py: ~index RecordsReader._splits > _Split
        tasks/sources/record_files.py: RecordFile
        tasks/records/reading.py: ^RecordsReader._splits > ^RecordsReader._split > ^RecordsReader.raw
        tasks/records/reading.py: ^RecordsReader.table > column_of
        tasks/records/column_types/numbers.py: Number.array
        tasks/records/reading.py: ^RecordsReader.table > ^RecordsReader.tables
        tasks/snapshots/table.py: ^_batches > ^_write > _make
        tasks/records/reading.py: typed
        tasks/snapshots/table.py: ^_make
        tasks/reader/__init__.py: Reader.apply > ^Reader > transform > FAMILIES
        tasks/reader/numbers.py: ~standardise standardise > filling
        tasks/reader/__init__.py: ^Reader.apply
        tasks/snapshots/table.py: ^_make > ^_write
        tasks/records/arrays.py: ArrayWriter
        tasks/feed/snapshot_reader.py: ~.npy SnapshotReader._files > ^SnapshotReader._array
        tasks/records/arrays.py: open_array
        tasks/feed/snapshot_reader.py: ^SnapshotReader._array > ^SnapshotReader.arrays > ^SnapshotReader.reader
        tasks/feed/snapshot_reader.py: BatchReader > BatchReader.read
        tasks/training/feeding.py: ^Feed._read > ^Feed._fill > ^Feed > Feed._next > ^Feed.take
        tasks/training/engines/tensorflow/engine.py: ^TensorFlowEngine.step > ^TensorFlowEngine
        tasks/training/engines/tensorflow/strategies/__init__.py: OneDeviceStrategy.prepare
        tasks/training/engines/tensorflow/step.py: Step.__call__ > Step.accumulated > Step.sums > Step.forward
        tasks/training/engines/objectives.py: Objective.inputs
        tasks/models/forward.py: arguments
        tasks/training/engines/tensorflow/step.py: ^Step.forward
        = self.model(inputs, training=True)
        """,
    ],
}
"""Routes of each walk, of which the first that holds in a commit counts: add one where a house has changed.

A line is a file and its stations in order, each a function, class, method or table. The walk goes from a station

- to one that it names, as a name, an attribute or in a text that names code;
- `^`: back up, to one that names it, or that the walk has been at (a call has returned);
- `~WORD`: through a file on the disk, of which both speak: WORD is in the text of both;

and ends (`= TEXT`) at the line of the last station with this text. What only runs a stage (Prefect, `as_run`,
`run_stage` and below) is no station: a flow follows on the class of its config, the work on the verb that names it.
Neither is a branch through which the value does not come to its use, as that to an artifact's digest.
"""

Numbers = dict[str, str]
"""What is counted, by what it is."""


def room_of(path: str) -> str:
    """Return the room of a file."""
    top, *rest = path.split("/")
    if top != "tasks":
        return top
    if len(rest) == 1:
        return rest[0] if rest[0] in ("artifacts.py", "errors.py", "draws.py") else "verbs"
    return "config/compose" if path.startswith(("tasks/config/compose", "tasks/config/reference")) else rest[0]


def writing(house: House) -> Numbers:
    """Return how much there is, and how densely it is written."""
    kinds, longest, characters = Counter[str](), 0, 0
    sizes: list[int] = []
    for path, tree in house.trees.items():
        lines = house.files[path].splitlines()
        sizes.append(len(lines))
        docstrings = set[int]()
        for node in filter(is_docstring, ast.walk(tree)):
            docstrings.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]
        tokens = tokenize.generate_tokens(io.StringIO(house.files[path]).readline)
        commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
        for number, line in enumerate(lines, start=1):
            longest, bare = max(longest, len(line)), line.strip()
            if number in docstrings:
                kinds["docstring"] += 1
            elif not bare:
                kinds["blank"] += 1
            else:
                kinds["comment"] += number in commented
                if not (number in commented and bare.startswith("#")):
                    kinds["code"] += 1
                    characters += len(bare)
    return {
        "files": f"{len(sizes):,}",
        "lines": f"{sum(sizes):,}",
        "median lines a file": f"{statistics.median(sizes):g}",
        "lines of the longest file": f"{max(sizes)}",
        **{f"lines, {kind}": f"{kinds[kind] / sum(sizes):.1%}" for kind in ("blank", "comment", "docstring", "code")},
        "characters of the longest line": f"{longest}",
        "characters a line of code": f"{characters / max(1, kinds['code']):.1f}",
    }


def structure(house: House) -> tuple[Numbers, list[str]]:
    """Return floors, circles, and what is named by texts; and what they are."""
    rooms: Graph = {room_of(path): set() for path in house.trees}
    for path, others in house.imports.items():
        rooms[room_of(path)] |= {room_of(other) for other in others}
    chain, of_rooms, of_modules = longest_chain(rooms), circles(rooms), circles(house.imports)
    linter = tomllib.loads(house.files.get("pyproject.toml", "")).get("tool", {}).get("importlinter", {})
    texts = {path: len(found) for path in house.trees if (found := house.texts(path))}
    calls = [node.func for tree in house.trees.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    numbers = {
        "floors": len(chain),
        "layers": max((len(contract.get("layers", ())) for contract in linter.get("contracts", ())), default=0),
        "circles of rooms": len(of_rooms),
        "circles of modules": len(of_modules),
        "modules in circles": sum(map(len, of_modules)),
        "dict[str, Any]": sum(house.files[path].count("dict[str, Any]") for path in house.trees),
        "texts that name code": sum(texts.values()),
        "files with such texts": len(texts),
        "imports by text": sum("import_module" in (getattr(f, "id", ""), getattr(f, "attr", "")) for f in calls),
        "keys of the reference": len(re.findall(r"^\| `", house.files.get("docs/reference.md", ""), re.MULTILINE)),
    }
    details = [f"floors: {' → '.join(chain)}"]
    details += [f"circle of rooms: {', '.join(group)}" for group in of_rooms]
    details += [f"circle of modules: {', '.join(group)}" for group in of_modules]
    details += [f"texts that name code: {count:3} {path}" for path, count in texts.items()]
    return {label: f"{number:,}" for label, number in numbers.items()}, details


def walked(house: House, walks: Mapping[str, Sequence[str]]) -> tuple[Numbers, list[str]]:
    """Return the number of files of each walk by the first route that holds; and the files in order."""
    numbers, details = Numbers(), list[str]()
    for name, routes in walks.items():
        label, broken = f"walk: {name}", list[str]()
        details.append(label)
        for route in routes:
            try:
                files, end = walk(house, route)
            except Broken as error:
                broken.append(f"  broken at {error}")
                continue
            numbers[label] = f"{len(files)}"
            details += [*(f"  {number:2} {path}" for number, path in enumerate(files, start=1)), f"  ends at {end}"]
            break
        else:
            numbers[label] = "broken"
            details += broken
    return numbers, details


def by_room(house: House) -> Numbers:
    """Return the files and lines of each room."""
    files, lines = Counter[str](), Counter[str]()
    for path in house.trees:
        files[room_of(path)] += 1
        lines[room_of(path)] += len(house.files[path].splitlines())
    return {f"room {room}": f"{files[room]} / {lines[room]:,}" for room in sorted(files)}


def report(houses: Iterable[House], walks: Mapping[str, Sequence[str]] = WALKS) -> Iterator[str]:
    """Yield the lines of the table of all numbers, a column for each house, and of what is behind them."""
    columns: dict[str, Numbers] = {}
    behind: list[str] = []
    for house in houses:
        (built, details), (ways, stations) = structure(house), walked(house, walks)
        columns[house.name] = writing(house) | built | ways | by_room(house)
        behind += ["", f"== {house.name}", *details, *stations]
    labels = list(dict.fromkeys(label for numbers in columns.values() for label in numbers))
    width = max(map(len, labels))
    yield " ".join([" " * width, *(f"{name:>12}" for name in columns)])
    for label in labels:
        yield " ".join([f"{label:{width}}", *(f"{numbers.get(label, '-'):>12}" for numbers in columns.values())])
    yield from behind


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    commits = parser.parse_args().commits or [None]
    print(*report(read(commit, Path(__file__).parents[1]) for commit in commits), sep="\n")
