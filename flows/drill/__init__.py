"""The drill: a preset is run once unbroken, then again and again with faults, and what both have made is compared."""
