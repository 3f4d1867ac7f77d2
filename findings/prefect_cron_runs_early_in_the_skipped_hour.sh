#!/bin/sh
# Prefect 3.8.8: a cron schedule at a time that the clocks skip runs an hour before it, not after it and not never.
#
# One would guess what cron daemons do: Vixie cron runs the job of a skipped time right after the change (03:00), others
# leave it out. The docstring of CronSchedule says that a daily schedule adjusts itself. In Europe/Zurich, on
# 28 March 2027, the clocks go from 02:00 to 03:00. The schedule 30 2 * * * runs at 01:30 +01:00 that day, so before
# whatever was meant to be over by 02:30; and at the doubled hour in October once, at the first 02:30.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check \
    prefect==3.8.8 'fastapi<0.151' 'sqlalchemy<2.1' 'pydantic==2.14.3'
export PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1 PREFECT_HOME="$folder/prefect"
"$folder/env/bin/python" - <<'PYTHON' > "$folder/seen"
import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo

from prefect.server.schemas.schedules import CronSchedule

zone = ZoneInfo("Europe/Zurich")
schedule = CronSchedule(cron="30 2 * * *", timezone="Europe/Zurich")
for noon in (datetime(2027, 3, 27, 12, tzinfo=zone), datetime(2027, 10, 30, 12, tzinfo=zone)):
    for time in asyncio.run(schedule.get_dates(n=2, start=noon)):
        print(time.astimezone(zone).strftime("%d %B %H:%M %z"))
PYTHON
cat "$folder/seen"
diff "$folder/seen" - <<'SEEN'
28 March 01:30 +0100
29 March 02:30 +0200
31 October 02:30 +0200
01 November 02:30 +0100
SEEN
