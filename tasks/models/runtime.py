"""Moved: see tasks.runtime."""

from tasks.runtime import pin

__all__ = ["pin"]
