"""The local platform: Prefect and MLflow servers, worker, deployments, backups and health checks."""
