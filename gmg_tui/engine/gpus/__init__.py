"""What an attempt takes of its GPU: memory and energy."""
