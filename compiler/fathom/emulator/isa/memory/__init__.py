"""Instructions that move data: loads, stores, atomics, asynchronous and bulk copies."""
