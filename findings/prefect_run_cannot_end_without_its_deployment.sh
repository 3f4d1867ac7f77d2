#!/bin/sh
# Prefect 3.8.8: a run whose deployment is deleted while it runs cannot end, if the deployment limits its runs.
#
# One would guess that the run ends as it would have, since Prefect keeps runs of deployments that are gone: without a
# limit it does. With `concurrency_limit` the run holds a place in the limit. The deletion takes the limit along, and
# the server answers every report of a final state with 500, as it cannot give the place back. A flow's process repeats
# the report, then ends with an error, whatever the flow has done; the run stays Running.
set -eu
folder=$(mktemp -d)
python3.11 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check \
    prefect==3.8.8 'fastapi<0.151' 'sqlalchemy<2.1' 'pydantic==2.14.3'
export PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1 PREFECT_HOME="$folder/prefect" PREFECT_LOGGING_LEVEL=CRITICAL
port=$("$folder/env/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$folder/env/bin/python" -m prefect server start --port "$port" > "$folder/log" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null || true; wait $server 2> /dev/null || true; rm -rf "$folder"' EXIT
"$folder/env/bin/python" - "http://127.0.0.1:$port/api" <<'PYTHON' > "$folder/seen"
import sys
import time

import httpx

api = httpx.Client(base_url=sys.argv[1], timeout=60, headers={"User-Agent": "prefect/3.8.8 (API 0.8.4)"})  # as its own client
for _ in range(600):
    try:
        if api.get("/health").status_code == 200:
            break
    except httpx.HTTPError:
        pass
    time.sleep(0.2)

flow = api.post("/flows/", json={"name": "a"}).json()["id"]
for limit in (None, 1):
    made = {"name": f"limit {limit}", "flow_id": flow, "concurrency_limit": limit}
    deployment = api.post("/deployments/", json=made).json()["id"]
    run = api.post(f"/deployments/{deployment}/create_flow_run", json={}).json()["id"]

    def report(state):
        return api.post(f"/flow_runs/{run}/set_state", json={"state": {"type": state}}).status_code

    report("PENDING"), report("RUNNING")
    api.delete(f"/deployments/{deployment}")
    print(f"limit {limit}: COMPLETED is answered {report('COMPLETED')},", end=" ")
    print("the run is", api.get(f"/flow_runs/{run}").json()["state"]["type"])
PYTHON
cat "$folder/seen"
diff "$folder/seen" - <<'SEEN'
limit None: COMPLETED is answered 201, the run is COMPLETED
limit 1: COMPLETED is answered 500, the run is RUNNING
SEEN
