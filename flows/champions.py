"""Registered models that a run begins with or learns from, which are chosen once, when the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.references import resolved
from tasks.errors import Refused
from tasks.runs.home import Home

if TYPE_CHECKING:
    from tasks.config.compose import Config

FIELD = "train.init"
WITHOUT_TRAINING = ("dataset", "release")
"""Flows that train nothing, but by a method of compression."""
WITHOUT_COMPRESSION = ("dataset", "training")
"""Flows that compress nothing."""
TEACHER = "compress.methods"


def pinned(flow: str, home: Home, config: Config) -> Config:
    """Return the config of a flow with models of the store in place of `train.init: {kind: champion}` and of registered
    teachers of methods of compression.

    Raises:
        Refused: there is no such version, or the model that it was made from is no longer in the store.
    """
    from tasks.training.initial import ChampionInit

    if flow not in WITHOUT_COMPRESSION:
        compress = config.compress.taught_by(
            lambda reference: model_of(home, reference, TEACHER, "leave out the teacher")
        )
        config = config.model_copy(update={"compress": compress})
    init = config.train.init
    if not isinstance(init, ChampionInit) or flow in WITHOUT_TRAINING:
        return config
    champion = model_of(home, f"{config.name}@champion", FIELD, "leave out train.init")
    train = config.train.model_copy(update={"init": init.of_model(champion)})
    return config.model_copy(update={"train": train})


def model_of(home: Home, reference: str, field: str, otherwise: str) -> str:
    """Return the digest of the model in the store that a registered version, NAME@ALIAS, was made from.

    Args:
        field: the setting that names it.
        otherwise: what else the user can do.
    """
    from tasks.store.store import Store

    name, _, alias = reference.partition("@")
    store = Store(home.store)
    try:
        with resolved(home, reference) as found:
            digest = str(store.resolve(f"export/{found.registered.export}").manifest["parents"]["model"])
            store.resolve(f"model/{digest}")
    except Refused as unknown:
        rule = f"its model is not in this store: {unknown.field}: {unknown.saw}"
        raise Refused(field, f"{alias} of {name}", rule, f"release one first, or {otherwise}") from None
    return digest
