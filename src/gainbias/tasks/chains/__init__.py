"""Tasks that are chains from the start: random ones, classic ones, queues and stocks."""
