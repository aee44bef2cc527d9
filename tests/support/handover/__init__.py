"""Threads that one library begins and another finishes: what they are, where they are stored, how they look."""
