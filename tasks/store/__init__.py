"""Input-addressed artifacts: staging, commit, verify, lineage."""
