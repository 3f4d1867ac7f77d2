"""The one way a stage runs, and the life of an attempt."""
