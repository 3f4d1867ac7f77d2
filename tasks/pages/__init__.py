"""What a person reads of a run: one line per stage, one page per run."""
