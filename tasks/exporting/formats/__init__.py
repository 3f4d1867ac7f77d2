"""The formats of a deployable model: a file with a class is a format, and no other line names it."""
