"""What the commands tell of trained runs: evaluations, dials, questions and exact answers."""
