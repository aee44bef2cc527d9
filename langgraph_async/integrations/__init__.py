"""Adapters to what others make, each with an extra of its own."""
