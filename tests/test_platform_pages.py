"""Prefect's and MLflow's pages in Chromium, on a real stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import CHROMIUM, browsing
from tests.support.homes import DIGITS, SMALL
from tests.support.stacks import Up, wait

expect.set_options(timeout=60_000)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (its package is chromium)"),
]


@pytest.fixture
def page(stack: Up) -> Iterator[Page]:
    """A browser's page that asks nobody but this machine."""
    with browsing() as page:
        foreign: list[str] = []
        page.on("request", lambda asked: foreign.append(asked.url) if not local(asked.url) else None)
        yield page
        assert not foreign


def local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))


def field(form: Page, label: str) -> Locator:
    """A field of Prefect's form, by the label before it."""
    return form.locator(".schema-form-property", has=form.get_by_text(label, exact=True)).last


def open_form(page: Page, stack: Up, running: dict[str, Any], name: str) -> None:
    """As a person comes to it: the deployment's page, Run, Custom run."""
    flow, _, deployment = name.partition("/")
    deployed = stack.ask(f"deployments/name/{flow}/{deployment}")
    page.goto(f"{running['prefect_url']}/deployments/deployment/{deployed['id']}")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    expect(page.get_by_text("A whole pipeline: data, stages and gates.")).to_be_visible()


def by_hand(stack: Up) -> list[dict[str, Any]]:
    """The runs that somebody asked for: where a schedule is on, more are planned all the time."""
    return [run for run in stack.ask("flow_runs/filter", {}) if not run["auto_scheduled"]]


def seed_of(run: dict[str, Any]) -> Any:
    """The seed of the split; none of a run that has no config, as that of gc."""
    return run["parameters"].get("config", {}).get("records", {}).get("split_seed")


def test_a_value_changed_in_the_form_runs_to_its_end(stack: Up, running: dict[str, Any], page: Page) -> None:
    open_form(page, stack, running, "dataset/digits")
    tabs = field(page, "Source (Optional)").get_by_role("button")
    assert {"sklearn", "text_files", "image_folder", "tfds"} <= set(tabs.all_inner_texts())
    expect(field(page, "Split Seed (Optional)")).to_contain_text("Keys the hash that assigns an example to its split")
    field(page, "Dataset (Optional)").get_by_role("button", name="digits").press("Space")
    expect(page.locator(".p-select-option")).to_have_text(["digits", "digits_traits", "diabetes"])
    page.keyboard.press("Escape")
    field(page, "Split Seed (Optional)").locator("input").fill("41")
    page.get_by_role("button", name="Submit").click()
    [asked] = wait(lambda: [run for run in by_hand(stack) if seed_of(run) == 41])
    link = page.get_by_role("link", name="digits-dataset").and_(page.locator(f"a[href$='{asked['id']}']"))
    link.first.click(timeout=180_000)  # it is named so once it began, as is the hourly one
    page.wait_for_url(f"**/runs/flow-run/{asked['id']}")
    assert stack.wait_for(asked["id"])["state"]["type"] == "COMPLETED"
    expect(page.get_by_text("Completed").first).to_be_visible()


def test_a_wrong_value_is_refused_in_the_form(stack: Up, running: dict[str, Any], page: Page) -> None:
    before = {run["id"] for run in by_hand(stack)}
    open_form(page, stack, running, "dataset/digits")
    field(page, "Split Seed (Optional)").locator("input").fill("-1")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("config.records.split_seed").first).to_be_visible()
    expect(page.get_by_text("less than the minimum of 0").first).to_be_visible()
    assert {run["id"] for run in by_hand(stack)} == before


def test_what_only_the_rules_between_fields_forbid_the_run_refuses_as_the_command_does(
    stack: Up, running: object
) -> None:
    wrong = {"train": 0.5, "validation": 0.1, "test": 0.1}
    answer = stack("run", "dataset", DIGITS, "--records.splits", str(wrong), "--json")
    assert answer.code == 2
    flow_run = stack.wait_for(stack.start_deployment("dataset/digits", {"records": {"splits": wrong}}))["state"]
    assert flow_run["type"] == "FAILED" and "config.records.splits" in flow_run["message"]
    assert answer.json["error"]["rule"] in flow_run["message"] and answer.json["error"]["remedy"] in flow_run["message"]


def test_a_run_and_its_report_open_in_mlflow(stack: Up, running: dict[str, Any], page: Page) -> None:
    made = stack("run", "pipeline", DIGITS, *SMALL, "--json")
    assert made.code == 0, made.stderr
    experiment = stack.newest_run()
    address = f"{running['mlflow_url']}/#/experiments/1/runs/{made.json['mlflow_run_id']}"
    page.goto(address)
    expect(page.get_by_text("test accuracy").first).to_be_visible()
    assert experiment["status"] == "completed"
    page.goto(f"{address}/artifacts/page.html")
    report = page.frame_locator("iframe")
    expect(report.get_by_role("heading", name="digits").first).to_be_visible()
    page.goto(f"{running['mlflow_url']}/#/models/digits/versions/1")
    expect(page.get_by_text("champion").first).to_be_visible()
