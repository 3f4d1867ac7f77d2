#!/bin/sh
# PyArrow 25.0.1, Python 3.11, Linux.
#
# Behaviour: a Parquet file whose timestamps are INT96, as Spark and Impala write them, is read with other dates where
# they are outside of 1677 to 2262: the year 1500 becomes 2084, and 2500 becomes 1915. No error, no warning, no null.
# What one would guess: these dates, or an error, as Arrow's casts to nanoseconds raise one. Cause: INT96 has a day and
# the nanoseconds within it; they are joined to nanoseconds since 1970 in 64 bits, which wraps.
# What works instead: `coerce_int96_timestamp_unit="us"`; for dates within these years it loses nanoseconds only.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==25.0.1
cat > "$folder/read.py" <<'SCRIPT'
import datetime
import sys

import pyarrow as pa
import pyarrow.parquet as pq

YEARS = [1500, 2022, 2500]
written = pa.table({"when": pa.array([datetime.datetime(year, 6, 1) for year in YEARS], pa.timestamp("us"))})
pq.write_table(written, sys.argv[1], use_deprecated_int96_timestamps=True)


def years(**options):
    column = pq.read_table(sys.argv[1], **options)["when"].cast(pa.timestamp("s"), safe=False)
    return [each.year for each in column.to_pylist()]


plain, coerced = years(), years(coerce_int96_timestamp_unit="us")
print(f"PyArrow {pa.__version__}: the years {YEARS} are read as {plain}, with microseconds as {coerced}")
raise SystemExit(not (plain[1] == 2022 and plain != YEARS and coerced == YEARS))
SCRIPT
"$folder/venv/bin/python" "$folder/read.py" "$folder/times.parquet"
# Output seen:
#   PyArrow 25.0.1: the years [1500, 2022, 2500] are read as [2084, 2022, 1915], with microseconds as [1500, 2022, 2500]
