"""The section `model`: an architecture by `model.kind`, a file for each."""

from __future__ import annotations

from typing import Annotated, get_args

from tasks.config.base import BY_KIND
from tasks.config.models.architecture import Architecture
from tasks.config.models.convnet import ConvnetModel
from tasks.config.models.convnet1d import Convnet1dModel
from tasks.config.models.dlrm import DlrmModel
from tasks.config.models.encoder import EncoderModel
from tasks.config.models.imported import ImportedModel
from tasks.config.models.keras_file import KerasFileModel
from tasks.config.models.mlp import MlpModel
from tasks.config.models.resnet import ResNetModel
from tasks.config.models.transformer import TransformerModel
from tasks.config.models.vit import ViTModel

OwnModel = (
    ConvnetModel | MlpModel | EncoderModel | TransformerModel | ResNetModel | ViTModel | DlrmModel | Convnet1dModel
)
AnyModel = OwnModel | ImportedModel | KerasFileModel
ModelConfig = Annotated[AnyModel, BY_KIND]

MODELS: dict[str, type[AnyModel]] = {section.model_fields["kind"].default: section for section in get_args(AnyModel)}
"""The sections by `model.kind`."""


def models_for(snapshot: str) -> tuple[str, ...]:
    """Return the values of `model.kind` that read a kind of snapshot, the default one first."""
    return tuple(kind for kind, section in MODELS.items() if snapshot in section.reads)


__all__ = [
    "MODELS",
    "AnyModel",
    "Architecture",
    "Convnet1dModel",
    "ConvnetModel",
    "DlrmModel",
    "EncoderModel",
    "ImportedModel",
    "KerasFileModel",
    "MlpModel",
    "ModelConfig",
    "OwnModel",
    "ResNetModel",
    "TransformerModel",
    "ViTModel",
    "models_for",
]
