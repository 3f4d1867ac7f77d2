"""The methods of compression: a class each, and no other line names it."""

from __future__ import annotations

from tasks.config.kinds import import_kinds

import_kinds(__name__, __path__)
