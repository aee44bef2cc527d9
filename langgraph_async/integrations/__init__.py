"""Bridges to other libraries. Each needs the extra of its name, and is loaded only where it is imported."""
