"""Energy by the counters of the processor (RAPL: Intel 64 and IA-32 manual, volume 3B, 15.10), where Linux shows them.

They count the whole package: what else runs on the machine is counted, too.
"""

from __future__ import annotations

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
PACKAGES = "intel-rapl:[0-9]*"
ABSENT = "no RAPL counters that this user can read"


class Energy:
    """The counters of all packages of the machine; without any it is false."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._zones: list[tuple[Path, int]] = []
        for zone in sorted(powercap.glob(PACKAGES)):
            if zone.name.count(":") > 1:  # a part of a package
                continue
            try:
                counter = zone / "energy_uj"
                int(counter.read_text())
                self._zones.append((counter, int((zone / "max_energy_range_uj").read_text())))
            except (OSError, ValueError):  # root alone can read them on many machines
                continue

    def __bool__(self) -> bool:
        return bool(self._zones)

    def read(self) -> list[int]:
        """Return the counters in microjoules."""
        return [int(counter.read_text()) for counter, _ in self._zones]

    def joules(self, before: list[int], after: list[int]) -> float:
        """Return the energy between two readings, between which a counter has begun again at 0 once at most."""
        ranges = (largest for _, largest in self._zones)
        used = ((b - a) % (largest + 1) for a, b, largest in zip(before, after, ranges, strict=True))
        return sum(used) / 1e6
