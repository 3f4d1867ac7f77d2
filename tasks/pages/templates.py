"""From a template beside this file to a page that needs nothing but itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.display.words import one, seconds


def page(template: str, **values: Any) -> str:
    """The HTML; every value is escaped but the SVG that we draw ourselves."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"seconds": seconds, "one": one}
    environment.globals["zip"] = zip
    return environment.get_template(template).render(**values)
