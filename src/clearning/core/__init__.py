"""The maths of horizon-aware goal-reaching: pure functions on one unbatched example."""
