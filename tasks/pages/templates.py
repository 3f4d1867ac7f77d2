"""Rendering of the HTML templates in this folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.display.numbers import seconds
from tasks.display.words import one


def page(template: str, **values: Any) -> str:
    """Return the HTML of a template; values are escaped unless the template marks them as safe."""
    return environment().get_template(template).render(**values)


@functools.cache
def environment() -> Environment:
    """Return the environment of the templates; it keeps those that it has compiled."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"seconds": seconds, "one": one}
    environment.globals["zip"] = zip
    return environment
