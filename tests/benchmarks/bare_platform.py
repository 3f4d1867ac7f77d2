"""A Prefect flow of nine tasks that do nothing, and an MLflow run with a metric: what both cost by themselves.

It uses the server that Prefect starts for a flow without one, and databases of SQLite, as a run of Millrace does.

usage: bare_platform.py FOLDER
"""

import os
import pathlib
import sys

folder = pathlib.Path(sys.argv[1]).resolve()
folder.mkdir(parents=True, exist_ok=True)
os.environ.update(
    PREFECT_HOME=str(folder / "prefect"),
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="120",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    PREFECT_LOGGING_LEVEL="ERROR",
    GIT_PYTHON_REFRESH="quiet",
)
os.environ.pop("PREFECT_API_URL", None)

from mlflow.tracking import MlflowClient
from prefect import flow, task


@task
def nothing(number: int) -> int:
    return number


@flow
def platform() -> int:
    for number in range(9):
        nothing(number)
    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("bare")
    run = client.create_run(experiment.experiment_id if experiment else client.create_experiment("bare"))
    client.log_metric(run.info.run_id, "number", number)
    client.set_terminated(run.info.run_id)
    return number


platform()
