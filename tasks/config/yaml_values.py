"""YAML as presets and flags have it."""

from __future__ import annotations

import re
from math import isinf
from typing import Any

import yaml


class PresetLoader(yaml.SafeLoader):
    """YAML in which each key occurs once: the first of two would be ignored. `1e-3` is a number, as in 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping as `SafeLoader` does; a repeated key is an error with its position."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value} occurs twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """Construct a float; a number that is too large for one is text: `14e930` is the beginning of a digest."""
        number = self.construct_yaml_float(node)
        return node.value if isinf(number) and "inf" not in node.value.lower() else number


PresetLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)
PresetLoader.add_constructor("tag:yaml.org,2002:float", PresetLoader.construct_number)


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text; raises `yaml.YAMLError`, also for a repeated key or a 13th month."""
    try:
        return yaml.load(text, PresetLoader)
    except (ValueError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from error
