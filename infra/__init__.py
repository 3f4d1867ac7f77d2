"""The platform around the pipeline."""
