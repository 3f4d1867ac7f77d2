"""The metadata by which `tfds.builder_from_directory` reads records, without date and host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.records.column_types import column_type
from tasks.sources.features import Feature
from tasks.store.files import pretty

FEATURES = "tensorflow_datasets.core.features"


def metadata(
    name: str, features: Mapping[str, Feature], shards: Mapping[str, list[tuple[int, int]]]
) -> dict[str, bytes]:
    """Return the files' contents by name. `shards`: (examples, bytes) of every shard of each split, in order."""
    info = {
        "name": name,
        "version": "1.0.0",
        "description": f"Records of the source {name}, made by Millrace.",
        "fileFormat": "tfrecord",
        "splits": [
            {
                "name": split,
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                "shardLengths": [str(examples) for examples, _ in lengths],
                "numBytes": str(sum(size for _, size in lengths)),
            }
            for split, lengths in sorted(shards.items())
        ],
    }
    schema = {
        "pythonClassName": f"{FEATURES}.features_dict.FeaturesDict",
        "featuresDict": {"features": {name: _connector(feature) for name, feature in sorted(features.items())}},
    }
    labels = {
        f"{name}.labels.txt": "".join(f"{label}\n" for label in feature.classes).encode()
        for name, feature in features.items()
        if feature.classes is not None and feature.role == "label"
    }
    return {"dataset_info.json": pretty(info), "features.json": pretty(schema), **labels}


def _connector(feature: Feature) -> dict[str, Any]:
    """Return the tfds description of a feature; sizes are strings, as protobuf's JSON has 64-bit integers."""
    connector = column_type(feature).connector()
    return {**connector, "pythonClassName": f"{FEATURES}.{connector['pythonClassName']}"}
