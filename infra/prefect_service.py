"""`python -m infra.prefect_service HOST PORT`: Prefect's server in the stack.

Uvicorn's own command would put the working directory on the import path.
"""

from __future__ import annotations

import sys

import uvicorn

from infra.prefect_server import guarded

if __name__ == "__main__":
    host, port = sys.argv[1:]
    uvicorn.run(guarded, factory=True, host=host, port=int(port), log_level="warning", access_log=False)
