"""How fast is it? One question per module; `python -m benchmarks` answers them all beside the peer."""
