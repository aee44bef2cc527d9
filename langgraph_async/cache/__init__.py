"""Caches: where nodes and tasks with a cache policy keep their results."""
