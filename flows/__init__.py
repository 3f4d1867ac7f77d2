"""Thin DAGs, the command, the presets; and Millrace from Python, in six functions (docs/how-to-python.md)."""

TYPE_CHECKING = False  # for type checkers, who know the name; the module `typing` may not be imported yet

if TYPE_CHECKING:
    from typing import Any

    from flows.library import open_model, open_report, open_snapshot, predict, run, runs

__all__ = ["open_model", "open_report", "open_snapshot", "predict", "run", "runs"]


def __getattr__(name: str) -> "Any":
    """Import a function when it is used: before the command has left `PYTHONPATH`, nothing else may be imported."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import flows.library

    return getattr(flows.library, name)
