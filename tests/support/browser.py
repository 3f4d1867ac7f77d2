"""Headless Chromium, for the pages of Prefect and MLflow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, sync_playwright

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@contextmanager
def browsing(width: int = 1400, height: int = 1400) -> Iterator[Page]:
    """An empty page of a browser of its own."""
    assert CHROMIUM is not None, "no Chromium on this machine"
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(60_000)
        yield page
        browser.close()
