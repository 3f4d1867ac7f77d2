"""At the end of a run of tests: the files that took longest, by the time of all of their tests and fixtures."""

from __future__ import annotations

from collections import Counter

from _pytest.reports import TestReport
from _pytest.terminal import TerminalReporter

SHOWN = 25


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print them; a single file needs no such list."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) < 2:
        return
    terminalreporter.section(f"slowest {SHOWN} files, of {sum(seconds.values()):,.0f} s in all")
    for name, taken in seconds.most_common(SHOWN):
        terminalreporter.write_line(f"{taken:7.1f} s  {name}")
