"""The architectures: a class each, chosen by `model.kind`. A new one is a file here with a class, and no other line.

Files of this folder import no framework at their top, as the config is read by processes that compute nothing; what is
made of Keras' layers is in `tasks.models.layers`.
"""

from __future__ import annotations

from tasks.config.kinds import import_kinds

import_kinds(__name__, __path__)
