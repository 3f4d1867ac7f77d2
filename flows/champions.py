"""The champion that a training begins with, which is chosen once, when the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.references import resolved
from tasks.errors import Refused
from tasks.runs.home import Home

if TYPE_CHECKING:
    from tasks.config import Config

FIELD = "train.init"
WITHOUT_TRAINING = ("dataset", "release")
"""Flows that train nothing."""


def pinned(flow: str, home: Home, config: Config) -> Config:
    """Return the config of a flow with a model of the store in place of `train.init: {kind: champion}`.

    Raises:
        Refused: there is no champion, or the model that it was made from is no longer in the store.
    """
    from tasks.config.fine_tune import ChampionInit

    init = config.train.init
    if not isinstance(init, ChampionInit) or flow in WITHOUT_TRAINING:
        return config
    train = config.train.model_copy(update={"init": init.of_model(model_of_champion(home, config.name))})
    return config.model_copy(update={"train": train})


def model_of_champion(home: Home, name: str) -> str:
    """Return the digest of the model in the store that the champion of this name was made from."""
    from tasks.store.store import Store

    saw = f"champion of {name}"
    store = Store(home.store)
    try:
        with resolved(home, f"{name}@champion") as reference:
            digest = str(store.resolve(f"export/{reference.registered.export}").manifest["parents"]["model"])
            store.resolve(f"model/{digest}")
    except Refused as unknown:
        remedy = "release one first, or leave out train.init"
        rule = f"its model is not in this store: {unknown.field}: {unknown.saw}"
        raise Refused(FIELD, saw, rule, remedy) from None
    return digest
