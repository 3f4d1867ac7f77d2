"""What a run refuses before anything is written; `millrace why` refuses the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.errors import Refused
from tasks.runs.home import Home

if TYPE_CHECKING:
    from tasks.config.compose import Config


def check(flow: str, config: Config, home: Home) -> None:
    """Check that a flow can run with this config; raises `Refused`."""
    check_release(flow, config.release.model, home)
    check_tune(flow, config)
    check_strategy(flow, config)
    check_brought(flow, config, home)
    check_source(flow, config)
    check_cluster(config)
    check_formats(flow, config)


def check_release(flow: str, model: str | None, home: Home) -> None:
    """Check that `release.model` is given for the flow `release` alone, and is in the store."""
    from tasks.store.store import Store

    if flow != "release" and model is not None:
        raise Refused(
            "release.model", model, f"the flow {flow} does not use it", "leave it out, or run the flow release"
        )
    if flow == "release":
        if model is None:
            rule = "the flow release needs a model in the store"
            raise Refused("release.model", "not set", rule, "add --release.model DIGEST; see `millrace list model`")
        Store(home.store).resolve(model, "model")


def check_tune(flow: str, config: Config) -> None:
    """Check that `tune` is given for the flow `tuning` alone, and that its trials can run at a time."""
    if flow != "tuning" and config.tune is not None:
        remedy = "run the flow tuning, or leave it out by --tune null"
        raise Refused("tune", "a search", f"the flow {flow} does not use it", remedy)
    if flow == "tuning":
        if config.tune is None:
            rule = "the flow tuning needs to know what to search"
            raise Refused("tune", "nothing", rule, "add the section tune; see docs/how-to-tune.md")
        if config.tune.parallel > 1 and config.train.cluster is not None:
            rule = "the hosts of train.cluster train one model at a time"
            raise Refused("tune.parallel", config.tune.parallel, rule, "set it to 1, or leave out train.cluster")


def check_strategy(flow: str, config: Config) -> None:
    """Check that what the training's strategy needs is installed."""
    from tasks.config.base import Conflict

    try:
        if flow not in ("dataset", "release"):
            config.train.strategy.check_packages()
    except Conflict as missing:
        raise Refused(missing.field, missing.saw, missing.rule, missing.remedy) from None


def check_formats(flow: str, config: Config) -> None:
    """Check that the packages of `export.formats` are installed."""
    from tasks.exporting import check_installed

    if flow not in ("dataset", "training"):
        check_installed(config.export.formats)


def check_brought(flow: str, config: Config, home: Home) -> None:
    """Check that the files or the model of `train.init`, and the user's model, loss and metrics, are there."""
    from flows.references import WITHOUT_COMPRESSION
    from tasks.store.store import Store
    from tasks.training.starting import check_init, loss_files

    if flow != "dataset":
        config.evaluate.source_files()
    if flow not in WITHOUT_COMPRESSION:
        for teacher in filter(None, (method.teacher_model for method in config.compress.on_models)):
            Store(home.store).resolve_model(teacher, "compress.methods")
    if flow in ("dataset", "release"):
        return
    check_init(config.train.init)
    loss_files(config.train)
    config.model.own_files()
    stored = None if config.train.init is None else config.train.init.artifact
    if stored is not None:
        Store(home.store).resolve_model(stored, "train.init.model")


def check_source(flow: str, config: Config) -> None:
    """Check source, snapshot and task by file names alone."""
    from tasks.feed import needs

    if flow == "release" or (source_features := config.source.check()) is None:
        return
    config.source.check_age(config.records.oldest())
    features = {name: feature.as_json() for name, feature in source_features.items()}
    needs.check_snapshot(features, config.snapshot)
    if flow != "dataset":
        from tasks.evaluation import probes

        if config.evaluate.reads_columns:
            from tasks.evaluation import columns

            columns.check(source_features, config.evaluate)
        probes.check(config.evaluate.robustness, source_features, config.snapshot.kind == "image")
        needs.check_task(features, config.model.task, config.train.class_weights)
        needs.check_positive(features, config.evaluate.positive)
        needs.check_inputs(features, config.snapshot, config.train.augment, config.train.order)


def check_cluster(config: Config) -> None:
    """Check that this host is the first of `train.cluster.hosts`, which runs the flow."""
    from tasks.processes.config import is_here

    cluster = config.train.cluster
    if cluster is None:
        return
    if not cluster.hosts:
        rule = "`millrace run` has no hosts from the environment"
        raise Refused("train.cluster.hosts", "nothing", rule, "name them, or use `millrace worker` on each host")
    if not is_here(cluster.chief):
        rule = "the first host runs the flow, and this is another"
        raise Refused("train.cluster.hosts", cluster.chief, rule, "run `millrace worker` here, and the flow there")
