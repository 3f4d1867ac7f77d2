"""The documentation is run, and made from the code where it can be."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tasks.config.reference import page
from tests.homes import MILLRACE, ROOT


def blocks(document: str) -> list[str]:
    """The shell blocks of a page, in order."""
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


def test_the_reference_page_is_what_the_config_classes_say() -> None:
    assert (ROOT / "docs/reference.md").read_text() == page(), "run `make docs`"


def test_links_between_pages_lead_somewhere() -> None:
    for source in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", source.read_text()):
            assert (source.parent / target).exists(), f"{source.name}: {target}"


@pytest.mark.slow
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    """In a checkout's folder with an empty home; exit code 3 of step 3 is one of its two right ends."""
    for block in blocks("docs/tutorial.md"):
        script = f'export PATH="{MILLRACE.parent}:$PATH"\nexport MILLRACE_HOME="{tmp_path}/home"\n{block}'
        script = script.replace("three.png", f"{tmp_path}/three.png")
        found = subprocess.run(["bash", "-e", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
        allowed = {0, 3} if "--model.dense" in block else {0}
        assert found.returncode in allowed, f"{block}\n{found.stdout}\n{found.stderr}"
        assert "Traceback" not in found.stderr
