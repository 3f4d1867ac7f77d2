"""The methods of compression: a class each, and no other line names it."""
