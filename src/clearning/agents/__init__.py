"""Learners. Each turns a batch into a gradient and knows no environment."""
