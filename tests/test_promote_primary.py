"""By which metric a new version and the champion are compared: the champion's, whatever the new one is judged by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.config.compose import Config
from tasks.errors import Refused
from tasks.registry import comparison


def config_of(**evaluate: Any) -> Config:
    values = {"name": "n", "model": {"kind": "mlp"}, "snapshot": {"kind": "table"}, "train": {"steps": 9}}
    return Config.model_validate({**values, "evaluate": evaluate})


def champion_by(metric: str, **tags: str) -> Any:
    return SimpleNamespace(version="3", metric=f"test/{metric}", tags={f"millrace.{k}": v for k, v in tags.items()})


def test_the_champions_metric_and_positive_class_decide() -> None:
    config = config_of(primary="roc_auc", positive="yes", resamples=321)
    judged = comparison.as_the_champion(champion_by("f1", positive="no"), config)
    assert (judged.primary, judged.positive, judged.resamples) == ("f1", "no", 321)
    assert judged.primary_of("classification") == ("f1", True)
    assert comparison.as_the_champion(champion_by("loss"), config).positive == "yes"
    assert comparison.as_the_champion(champion_by("loss"), config).primary_of("classification") == ("loss", False)


def test_a_metric_of_the_users_decides_where_the_new_run_has_it_too() -> None:
    own = config_of(own_metrics={"cost": "a:b"}, lower_is_better=["cost"])
    assert comparison.as_the_champion(champion_by("cost"), own).primary_of("classification") == ("cost", False)
    with pytest.raises(
        Refused, match="champion version 3 was judged by test/cost; this run has no such metric of class"
    ):
        comparison.as_the_champion(champion_by("cost"), config_of())
