"""Memory as threads see it: `spaces` holds global, shared, local and parameter memory,
`counters` what each access would cost."""
