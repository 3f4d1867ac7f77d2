"""What a run looks like: in the terminal, as Markdown for MLflow and Prefect, and as a page."""
