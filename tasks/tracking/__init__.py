"""The journal of metrics, its shipping to MLflow, the MLflow run and the registry."""
