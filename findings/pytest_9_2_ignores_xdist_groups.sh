#!/bin/sh
# pytest 9.2.0 with pytest-xdist 3.8.0 (the newest that pip chooses together), Python 3.11, Linux.
#
# Behaviour: `--dist loadgroup` distributes tests as if no test had the marker `xdist_group`. No warning, no error;
# the marker is still registered and accepted under --strict-markers.
# What one would guess: all tests of a group run in one worker, as documented, and as they do with pytest 9.1.0 and the
# same xdist. Tests that share a server or a folder through a session fixture then get two of it, or disturb each other.
# Cause: xdist 3.8.0 writes the group into the private attribute `Item._nodeid`, which pytest 9.2.0 no longer reads.
# What works instead: a scheduler of one's own (`pytest_xdist_make_scheduler`), or pytest < 9.2.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/test_group.py" <<'TESTS'
import os
import time

import pytest


@pytest.mark.xdist_group("the only group")
@pytest.mark.parametrize("number", range(8))
def test_in_a_group(number):
    time.sleep(0.2)
    with open("workers.txt", "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
TESTS
cd "$folder"
for version in 9.1.0 9.2.0; do
    venv/bin/pip install --quiet --disable-pip-version-check "pytest==$version" pytest-xdist==3.8.0
    rm -f workers.txt
    venv/bin/python -m pytest --quiet --strict-markers -W error -n 2 --dist loadgroup test_group.py
    workers=$(sort -u workers.txt | wc -l | tr -d ' ')
    echo "pytest $version: 8 tests of one group ran in $workers worker(s)"
    [ "$workers" = "$([ "$version" = 9.2.0 ] && echo 2 || echo 1)" ] || { echo "changed"; exit 1; }
done
# Output seen:
#   pytest 9.1.0: 8 tests of one group ran in 1 worker(s)
#   pytest 9.2.0: 8 tests of one group ran in 2 worker(s)
