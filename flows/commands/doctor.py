"""millrace doctor: check this machine, the home and the versions."""

from __future__ import annotations

import typer

from flows.reply import AsJson, replying
from infra import health
from tasks.display import terminal
from tasks.runs.home import find_home

MARKS = {"ok": "ok     ", "warning": "WARNING", "fault": "FAULT  "}


def doctor(as_json: AsJson = False) -> None:
    """Check versions, ports, disk, memory, accelerators, home, clock and servers. Exit code 1 after a fault."""
    with replying("doctor", as_json) as reply:
        home = find_home()
        with terminal.waiting("asking the servers"):
            findings = health.examine(home.root)
        reply.add(findings=[finding.as_json() for finding in findings])
        if not as_json:
            for finding in findings:
                remedy = f"; {finding.remedy}" if finding.remedy else ""
                typer.echo(f"{MARKS[finding.verdict]} {finding.what:<14} {finding.saw}{remedy}")
        reply.exit_code = 1 if any(finding.verdict == "fault" for finding in findings) else 0
