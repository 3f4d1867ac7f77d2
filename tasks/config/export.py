"""Contents of an export besides the accepted variants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, Section

FormatName = Literal["saved_model", "litert", "keras", "onnx", "openvino", "safetensors", "stablehlo"]
"""The name of a float format."""


class ExportConfig(Section):
    """Every variant is checked in a fresh process that imports none of our code."""

    formats: Annotated[tuple[FormatName, ...], LISTED, NOT_IDENTITY] = ("saved_model", "litert")
    """Float formats of the model, each a variant of its own: `saved_model` (TensorFlow; always, as the registry serves
    it), `litert` (formerly TensorFlow Lite), `keras` (a `.keras` file, for Keras alone), `onnx`, `openvino`,
    `safetensors` (the weights by name, with the architecture), `stablehlo` (for JAX). The last four need an extra of
    this package: `onnx`, `openvino`, `safetensors`, `jax`."""

    golden: Annotated[int, Field(ge=1, le=1024)] = 32
    """Test examples whose inputs and outputs are part of the export."""

    @model_validator(mode="after")
    def formats_are_served(self) -> ExportConfig:
        listed = ", ".join(self.formats)
        if "saved_model" not in self.formats:
            rule = "must name saved_model, which the registry serves"
            raise Conflict("formats", listed or "none", rule, "add saved_model")
        if len(set(self.formats)) < len(self.formats):
            raise Conflict("formats", listed, "must name each format once", "leave the second out")
        return self
