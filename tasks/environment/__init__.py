"""What a process takes from its environment: secrets by reference, database templates, garbage collection."""
