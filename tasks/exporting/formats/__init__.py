"""The formats of a deployable model: a file with a class is a format, and no other line names it."""

from __future__ import annotations

from tasks.config.kinds import import_kinds

import_kinds(__name__, __path__)
