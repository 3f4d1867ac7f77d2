"""A home and its runs: records, journals, the audit log, provenance, differences, garbage collection."""
