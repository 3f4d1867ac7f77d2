"""The methods of compression: a file with a class is a method, and no other line names it.

All modules of this folder are imported here; what lists methods (config, reference page, errors, search) asks
`Method.kinds`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__, f"{__name__}.")):
    import_module(_module)
