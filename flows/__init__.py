"""Thin DAGs, the command, and the presets."""
