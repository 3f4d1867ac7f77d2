"""What tests share: homes, stacks, tiny trainings, and the machinery of mutations."""
